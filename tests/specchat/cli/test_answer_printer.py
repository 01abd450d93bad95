"""What `ask` prints of words that the target has not verified, and never has to take back."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import pytest

from specchat.cli.answer_printer import AnswerPrinter
from specchat.printable import printable
from specengine.core.events import Chunk, Finished, Reviewed, Unverified, Version
from specengine.core.statistics import Statistics

STATS = Statistics()
MARK = Unverified(2, 8, "draft", seed=7)
SHOWN = Version("The fox sleeps.", (0, 1, 2), MARK)
ALONE = (Chunk("The fox ", (0, 1), STATS), Chunk("sleeps.", (2,), STATS, MARK))
OTHER = Version("The fox runs", (0, 1, 4), None)
LATER = Chunk(" away.", (5,), STATS)

Event = Chunk | Reviewed | Finished


def finished(version: Version) -> Finished:
    return Finished("stop", version.text, version.tokens, STATS, unverified=version.unverified)


UNRESOLVED = (*ALONE, finished(SHOWN))
STANDS = (
    *ALONE,
    Reviewed(Version(SHOWN.text, SHOWN.tokens, None), None, STATS),
    LATER,
    finished(Version("The fox sleeps. away.", (0, 1, 2, 5), None)),
)
REPLACED = (
    *ALONE,
    Reviewed(OTHER, SHOWN, STATS),
    LATER,
    finished(Version("The fox runs away.", (0, 1, 4, 5), None)),
)


def printed(
    events: Sequence[Event], capsys: pytest.CaptureFixture[str], *, terminal: bool
) -> list[str]:
    """Standard output after each event, without its beginning."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: terminal)
        printer = AnswerPrinter()
    pieces = []
    for event in events:
        printer.take(event)
        pieces.append(capsys.readouterr().out)
    return pieces


@pytest.mark.parametrize("events", [UNRESOLVED, STANDS, REPLACED])
def test_a_pipe_gets_the_answer_and_nothing_else(
    events: Sequence[Event], capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = printed(events, capsys, terminal=False)
    last = events[-1]
    assert isinstance(last, Finished)
    assert "".join(pieces) == last.text
    assert pieces[:2] == ["The fox ", ""]


def test_a_terminal_shows_unverified_words_at_once_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pieces = printed(UNRESOLVED, capsys, terminal=True)
    dim = click.style("sleeps.", dim=True)
    assert pieces == ["The fox ", f" [not verified by the target; written by draft: {dim}", "]"]


def test_a_terminal_is_told_what_became_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    *_, resolved, later, end = printed(STANDS, capsys, terminal=True)
    assert (resolved, later, end) == (" – verified]", " away.", "")
    *_, resolved, later, end = printed(REPLACED, capsys, terminal=True)
    assert resolved == "]\n[the target's own continuation:]\nThe fox runs"
    assert (later, end) == (" away.", "")


THOUGHTFUL: tuple[Event, ...] = (
    Chunk("", (0,), STATS, reasoning="2 and\x1b[2J 2"),
    Chunk("4", (1,), STATS),
    Finished("stop", "4", (0, 1), STATS, reasoning="2 and 2", answer_at=1),
)


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_thought_goes_dim_to_a_terminal_of_errors_and_nowhere_else(
    terminal: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.stderr, "isatty", lambda: terminal)
        printer = AnswerPrinter()
    for event in THOUGHTFUL:
        printer.take(event)
    out, err = capsys.readouterr()
    assert out == "4"
    thought = printable("2 and\x1b[2J 2")
    assert err == (click.style(thought, dim=True) + "\n\n" if terminal else "")
