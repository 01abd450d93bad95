"""The terminal's input on Linux and macOS: Textual's, but that nothing pasted presses a key, that
nothing typed early is lost, and that the program ends with its terminal.
"""

from __future__ import annotations

import os
import select
import signal
from codecs import getincrementaldecoder
from contextlib import suppress

from textual._xterm_parser import XTermParser
from textual.app import ScreenStackError
from textual.drivers.linux_driver import LinuxDriver

from specchat.tui.pasted import PasteFilter

_TICK_S = 0.1  # how soon an Escape that nothing follows is taken for the key
_LOOK_S = 0.02  # how soon a widget that can take what was typed is noticed
_READ = 1 << 16


class TerminalDriver(LinuxDriver):
    """Pastes are filtered, and bytes that are no UTF-8 are shown instead of ending the program."""

    _has_begun = False

    def run_input_thread(self) -> None:
        """Until `exit_event`, or until the terminal is gone."""
        self._wait_for_focus()
        parser, visible = XTermParser(self._debug), PasteFilter()
        decoder = getincrementaldecoder("utf-8")("replace")
        while not self.exit_event.is_set():
            ready, _, _ = select.select([self.fileno], [], [], _TICK_S)
            if ready:
                data = self._read()
                if not data:
                    self.hang_up()
                    return
                if text := visible(decoder.decode(data)):
                    for message in parser.feed(text):
                        self.process_message(message)
            for message in parser.tick():
                self.process_message(message)

    def hang_up(self) -> None:
        """The terminal is gone. Where it is not the controlling one, nobody else tells."""
        signal.raise_signal(signal.SIGHUP)

    def _wait_for_focus(self) -> None:
        """What is typed while the program starts stays in the terminal until a widget can take it:
        Textual would drop it.
        """
        while not self._has_begun and not self.exit_event.wait(_LOOK_S):
            with suppress(ScreenStackError):
                self._has_begun = self._app.focused is not None

    def _read(self) -> bytes:
        """What there is; nothing if the terminal is gone."""
        try:
            return os.read(self.fileno, _READ)
        except OSError:
            return b""
