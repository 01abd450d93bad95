"""docs/endpoint.md names what the server answers, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specchat.server.anthropic_request import Messages
from specchat.server.chat_request import ChatCompletion
from specchat.server.ollama_request import OllamaChat, OllamaGenerate
from specchat.server.openapi import description
from specchat.server.request_options import Options
from specchat.server.text_request import TextCompletion

TEXT = (Path(__file__).parents[2] / "docs" / "endpoint.md").read_text("utf-8")


def named(line: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", line))


def test_every_path_is_named() -> None:
    for path in description()["paths"]:
        if not path.startswith("/specchat/"):
            assert f"{path}`" in TEXT


@pytest.mark.parametrize(
    ("place", "kinds"),
    [
        ("everywhere", (Options,)),
        ("`/v1/chat/completions`", (ChatCompletion,)),
        ("`/v1/completions`", (TextCompletion,)),
        ("`/v1/messages`", (Messages,)),
        ("`/api/chat`, `/api/generate`", (OllamaChat, OllamaGenerate)),
    ],
)
def test_every_option_that_is_refused_is_named(
    place: str, kinds: tuple[type[Options], ...]
) -> None:
    (row,) = re.findall(rf"^\| {re.escape(place)} \| ([^|\n]+) \|$", TEXT, re.MULTILINE)
    refused = {name for kind in kinds for name in kind.refused}
    expected = refused if kinds == (Options,) else refused - set(Options.refused)
    assert expected <= named(row)
    known = {"repeat_penalty", "generate"}
    assert named(row) - known == expected
