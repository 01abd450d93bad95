"""llama.cpp's log, in pieces of lines, to `logging`."""

from __future__ import annotations

import logging
import threading
from collections import deque

# enum ggml_log_level (not the order that llama-cpp-python's own logger assumes).
_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_CONTINUE = 5  # belongs to the line that is being written


class LogLines:
    """Joins the pieces that llama.cpp logs to lines: one record a line, errors kept."""

    def __init__(self, logger: logging.Logger) -> None:
        self.errors: deque[str] = deque(maxlen=16)
        self._logger = logger
        self._lock = threading.Lock()
        self._level = logging.INFO
        self._pending = ""

    def write(self, level: int, text: bytes, _user_data: object = None) -> None:
        """llama.cpp's log callback: called on any of its threads, with any piece of a line."""
        with self._lock:
            if level != _CONTINUE:
                self._emit(self._pending)
                self._pending = ""
                self._level = _LEVELS.get(level, logging.INFO)
            *lines, self._pending = (self._pending + text.decode("utf-8", "replace")).split("\n")
            for line in lines:
                self._emit(line)

    def _emit(self, line: str) -> None:
        line = line.rstrip()
        if not line:
            return
        if self._level >= logging.ERROR:
            self.errors.append(line)
        self._logger.log(self._level, "%s", line)
