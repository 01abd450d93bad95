"""The terminal's input on Linux and macOS: Textual's, but that nothing pasted presses a key."""

from __future__ import annotations

import os
import select
from codecs import getincrementaldecoder

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from specchat.tui.pasted import PasteFilter

_TICK_S = 0.1  # how soon an Escape that nothing follows is taken for the key
_READ = 1 << 16


class TerminalDriver(LinuxDriver):
    """Pastes are filtered, and bytes that are no UTF-8 are shown instead of ending the program."""

    def run_input_thread(self) -> None:
        """Until `exit_event`, or until the terminal is gone."""
        parser, visible = XTermParser(self._debug), PasteFilter()
        decoder = getincrementaldecoder("utf-8")("replace")
        while not self.exit_event.is_set():
            ready, _, _ = select.select([self.fileno], [], [], _TICK_S)
            if ready:
                try:
                    data = os.read(self.fileno, _READ)
                except OSError:
                    return
                if not data:
                    return
                if text := visible(decoder.decode(data)):
                    for message in parser.feed(text):
                        self.process_message(message)
            for message in parser.tick():
                self.process_message(message)
