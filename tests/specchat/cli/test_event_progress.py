"""Progress on a terminal: whatever a model file is called, the terminal obeys none of it."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from specchat.cli import progress_bar
from specchat.cli.event_progress import EventProgress
from specengine.core.events import Progress


def test_escape_sequences_in_a_name_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, no_color=True, width=100)
    monkeypatch.setattr(progress_bar, "Console", lambda **_: console)
    with EventProgress() as progress:
        progress.update(Progress("load", 1, 2, "a\x1b]0;title\x07.gguf"))
        progress.update(Progress("download", 10, 40, "b\x1b]0;title\x07.gguf"))
        progress.notice("another source")
    assert "loading a\u241b]0;title\u2407.gguf" in screen.getvalue()
    assert "b\u241b]0;title\u2407.gguf" in screen.getvalue()
    assert "10/40 bytes" in screen.getvalue()
    assert "another source\n" in screen.getvalue()
    assert "\x1b]0;" not in screen.getvalue()


def test_a_wait_is_said_where_no_terminal_shows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_bar, "Console", lambda **_: Console(file=StringIO()))
    with EventProgress() as progress:
        progress.update(Progress("load", 1, 2, "a.gguf"))
        progress.update(Progress("wait", 0, 0, "http://far: busy"))
        progress.update(Progress("wait", 0, 0, "http://far: busy"))
    assert capsys.readouterr().err == "specchat: waiting: http://far: busy\n"
