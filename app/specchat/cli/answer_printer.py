"""An answer on standard output, as it comes."""

from __future__ import annotations

import sys

import click

from specchat.printable import printable
from specengine.core.events import Chunk, Finished, Reviewed, Unverified, Version

_RECALLED = 40  # characters before the place where the target goes on


class AnswerPrinter:
    """Prints chunks at once, and nothing that would have to be taken back.

    What is thought goes to standard error, dim, and only where that is a terminal. Words that the
    target has not verified are dim and in named brackets on a terminal. Elsewhere they are held
    back until the target has spoken, or the answer ends without it.
    """

    def __init__(self) -> None:
        self._is_terminal = sys.stdout is not None and sys.stdout.isatty()
        self._shows_thoughts = sys.stderr is not None and sys.stderr.isatty()
        self._is_thinking = False
        self._text = ""
        self._printed = 0  # characters of it
        self._in_brackets = False

    def take(self, event: Chunk | Reviewed | Finished) -> None:
        match event:
            case Chunk():
                self._think(event.reasoning)
                self._text += event.text
                self._print(event.unverified)
            case Reviewed():
                self._text = event.now.text
                if self._in_brackets and event.now.unverified is None:
                    self._resolve(event.replaced)
                self._print(event.now.unverified)
            case Finished():
                self._show(len(self._text))
                if self._in_brackets:
                    _echo("]")
                self._end_thought()

    def _think(self, text: str) -> None:
        if text and self._shows_thoughts:
            self._is_thinking = True
            _echo(click.style(printable(text), dim=True), err=True)

    def _end_thought(self) -> None:
        if self._is_thinking:
            self._is_thinking = False
            _echo("\n\n", err=True)

    def _print(self, mark: Unverified | None) -> None:
        """What is new of the text, which is unverified from `mark` on."""
        if mark is not None:
            self._show(mark.char)
            if not self._is_terminal:
                return
            if not self._in_brackets:
                self._in_brackets = True
                _echo(f" [not verified by the target; written by {mark.writer}: ")
        self._show(len(self._text))

    def _resolve(self, replaced: Version | None) -> None:
        """The brackets are closed; where the target goes on differently, it begins anew there."""
        self._in_brackets = False
        if replaced is None or replaced.unverified is None:
            _echo(" – verified]")
            return
        self._printed = replaced.unverified.char
        before = self._text[: self._printed].rpartition("\n")[2][-_RECALLED:]
        _echo(f"]\n[the target's own continuation:]\n{printable(before)}")

    def _show(self, end: int) -> None:
        """The text up to its character `end`."""
        text, self._printed = self._text[self._printed : end], max(self._printed, end)
        if not text:
            return
        self._end_thought()
        if self._is_terminal:  # which obeys nothing in it; a file gets all of it
            text = printable(text)
        _echo(click.style(text, dim=True) if self._in_brackets else text)


def _echo(text: str, *, err: bool = False) -> None:
    click.echo(text, nl=False, err=err, color=True)
