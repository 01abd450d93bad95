"""An answer whose end is not verified: the label, and what is below it."""

from __future__ import annotations

import pytest

from specchat.tui.markdown import MarkedDocument
from specchat.tui.markdown.blocks import Row


def rows(document: MarkedDocument) -> list[Row]:
    return [document.row(y) for y in range(document.height(40))]


def shown(document: MarkedDocument) -> list[str]:
    return [row.content.plain.rstrip() for row in rows(document)]


def marked(before: str, after: str) -> MarkedDocument:
    document = MarkedDocument()
    document.append(before)
    document.mark("not verified")
    document.append(after)
    document.finish()
    return document


def test_unverified_words_stand_below_the_label() -> None:
    document = marked("**Sure**", " and *so* on")
    assert shown(document) == ["Sure", "", "not verified", "and so on"]
    assert [str(span.style) for span in rows(document)[3].content.spans][-1] == "dim"


@pytest.mark.parametrize("fence", ["```", "````", "~~~"])
def test_unverified_code_is_code_as_what_is_above_it(fence: str) -> None:
    inside = "```" if fence == "````" else "*"
    document = marked(f"{fence}python\nx = 1\n", f"y = **2**\n{inside}\n{fence}\nafter *it*")
    assert shown(document) == [
        *(" python", " x = 1", "", "not verified"),
        *(" y = **2**", f" {inside}", "", "after it"),
    ]
    fills = [row.fill for row in rows(document)]
    assert fills[4] == fills[5] == fills[0] != fills[7]
