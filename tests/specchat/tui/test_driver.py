"""The terminal's input as the chat gets it: from a pseudo-terminal, byte by byte."""

from __future__ import annotations

import os
import sys
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


def heard(data: bytes, *, hang_up: bool = False) -> list[Any]:
    """The messages for `data`, until a key `!` comes or the terminal is gone."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    driver = Listening(theirs)
    thread = Thread(target=driver.run_input_thread)
    thread.start()
    for place in range(0, len(data), 1000):
        os.write(ours, data[place : place + 1000])
    if hang_up:
        os.close(ours)
    else:
        os.write(ours, b"!")
        while not (driver.heard and getattr(driver.heard[-1], "character", "") == "!"):
            thread.join(0.01)
            assert thread.is_alive()
        driver.exit_event.set()
    thread.join(10)
    assert not thread.is_alive()
    if not hang_up:
        os.close(ours)
    os.close(theirs)
    assert driver.is_gone == hang_up
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
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    driver = Listening(theirs)
    thread = Thread(target=driver.run_input_thread)
    thread.start()
    os.write(ours, b"\x1b")
    while not driver.heard:
        thread.join(0.01)
    driver.exit_event.set()
    thread.join(10)
    os.close(ours)
    os.close(theirs)
    assert [key.key for key in driver.heard] == ["escape"]


def test_what_is_typed_before_there_is_a_prompt_waits_for_it() -> None:
    ours, theirs = os.openpty()
    os.write(ours, b"so")  # while the program starts the terminal still waits for whole lines
    tty.setraw(theirs, TCSANOW)
    app = Screens()
    driver = Listening(theirs, app)
    thread = Thread(target=driver.run_input_thread)
    thread.start()
    os.write(ours, b"on")
    thread.join(0.2)
    assert driver.heard == []
    app.focused = "the prompt"
    while len(driver.heard) < 4:
        thread.join(0.01)
    driver.exit_event.set()
    thread.join(10)
    os.close(ours)
    os.close(theirs)
    assert [key.character for key in driver.heard] == ["s", "o", "o", "n"]


def test_a_terminal_that_goes_away_ends_the_thread_and_is_told() -> None:
    assert [key.character for key in heard(b"ab", hang_up=True)] in (["a", "b"], [])
