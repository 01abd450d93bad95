"""Nothing that is pasted presses a key, however the terminal cuts it into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

from specchat.tui.pasted import PasteFilter

BEGIN, END = "\x1b[200~", "\x1b[201~"
HOSTILE = "red \x1b[31m\x1b]0;title\x07 \x1b\x11quit \x1b\r\x1b[A \x1b"


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({cut % (len(text) + 1) for cut in cuts})
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def parsed(parts: list[str]) -> list[Message]:
    """What Textual makes of the terminal's input after the filter."""
    visible, parser = PasteFilter(), XTermParser()
    result: list[Message] = []
    for part in parts:
        if text := visible(part):
            result += list(parser.feed(text))
    return result


@given(
    st.lists(st.integers(0, 200), max_size=6), st.text(alphabet="a\x1b[201~\r\x11é", max_size=30)
)
def test_a_paste_is_one_paste_and_no_key(cuts: list[int], more: str) -> None:
    text = (HOSTILE + more).replace(END, "")
    if (text + END).index(END) != len(text):
        return  # its own end begins the mark
    typed = f"a{BEGIN}{text}{END}b"
    before, paste, after = parsed(pieces(typed, cuts))
    assert isinstance(before, events.Key)
    assert isinstance(after, events.Key)
    assert (before.character, after.character) == ("a", "b")
    assert isinstance(paste, events.Paste)
    assert paste.text == text.replace("\x1b", "\u241b")


@given(st.text(alphabet="a\x1b[20~01A", max_size=40), st.lists(st.integers(0, 40), max_size=4))
def test_what_is_typed_passes_at_once_and_unchanged(text: str, cuts: list[int]) -> None:
    if BEGIN in text:
        return
    visible = PasteFilter()
    assert [visible(part) for part in pieces(text, cuts)] == pieces(text, cuts)


def test_without_the_filter_a_paste_presses_keys() -> None:
    """What Textual does alone; where this fails, the filter may go."""
    parser = XTermParser()
    messages = list(parser.feed(f"{BEGIN}x\x1b[31m\x11{END}"))
    assert any(isinstance(each, events.Key) and each.key == "ctrl+q" for each in messages)


@pytest.mark.parametrize("count", [1, 3])
def test_pastes_follow_one_another(count: int) -> None:
    pastes = parsed([f"{BEGIN}\x1b[A{END}"] * count)
    assert [type(each) for each in pastes] == [events.Paste] * count
