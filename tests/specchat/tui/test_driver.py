"""The terminal's input as the chat gets it: from a pseudo-terminal, byte by byte."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

import pytest
from textual import events

if sys.platform == "win32":
    pytest.skip("Textual's own driver is used there", allow_module_level=True)

import tty
from termios import TCSANOW

from specchat.tui.driver import TerminalDriver


@dataclass
class Screens:
    """What the driver sees of an app: the widget that takes what is typed."""

    focused: object = None


class Listening(TerminalDriver):
    """A driver that only listens; `heard` are its messages."""

    def __init__(self, terminal: int, app: Screens | None = None) -> None:
        self.fileno = terminal
        self.exit_event = Event()
        self.heard: list[Any] = []
        self.is_gone = False
        self._debug = False
        self._app: Any = app or Screens(focused="the prompt")

    def process_message(self, message: Any) -> None:
        self.heard.append(message)

    def hang_up(self) -> None:
        self.is_gone = True


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def listening(app: Screens | None = None, typed: bytes = b"") -> Iterator[tuple[Listening, int]]:
    """A driver, and our end of its terminal, where `typed` came before the driver did."""
    ours, theirs = os.openpty()
    os.write(ours, typed)  # while the program starts the terminal still waits for whole lines
    tty.setraw(theirs, TCSANOW)
    driver = Listening(theirs, app)
    thread = Thread(target=driver.run_input_thread)
    thread.start()
    yield driver, ours
    driver.exit_event.set()
    thread.join(10)
    assert not thread.is_alive()
    if not driver.is_gone:
        os.close(ours)
    os.close(theirs)


def heard(data: bytes) -> list[Any]:
    """The messages for `data`, until a key `!` comes."""
    with listening() as (driver, ours):
        for place in range(0, len(data), 1000):
            os.write(ours, data[place : place + 1000])
        os.write(ours, b"!")
        wait_until(lambda: any(getattr(key, "character", "") == "!" for key in driver.heard))
    return driver.heard


def test_a_large_hostile_paste_is_one_message_and_presses_nothing() -> None:
    text = "line é \x1b[31m \x1b\x11 \x1b\r 語\n" * 4000
    paste, key = heard(f"\x1b[200~{text}\x1b[201~".encode())
    assert isinstance(paste, events.Paste)
    assert paste.text == text.replace("\x1b", "\u241b")
    assert key.character == "!"


def test_bytes_that_are_no_utf8_end_nothing() -> None:
    assert [key.character for key in heard(b"a\xff\xc3")][:2] == ["a", "\ufffd"]


def test_escape_alone_is_the_key() -> None:
    with listening() as (driver, ours):
        os.write(ours, b"\x1b")
        wait_until(lambda: driver.heard != [])
    assert [key.key for key in driver.heard] == ["escape"]


def test_what_is_typed_before_there_is_a_prompt_waits_for_it() -> None:
    app = Screens()
    with listening(app, b"so") as (driver, ours):
        os.write(ours, b"on")
        time.sleep(0.2)
        assert driver.heard == []
        app.focused = "the prompt"
        wait_until(lambda: len(driver.heard) == 4)
    assert [key.character for key in driver.heard] == ["s", "o", "o", "n"]


def test_a_terminal_that_goes_away_ends_the_thread_and_is_told() -> None:
    with listening() as (driver, ours):
        os.write(ours, b"ab")
        os.close(ours)
        wait_until(lambda: driver.is_gone)
    assert [key.character for key in driver.heard] in (["a", "b"], [])
