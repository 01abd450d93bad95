"""Keeps the terminal for the screen."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@contextmanager
def terminal_for_screen(log: Path) -> Iterator[None]:
    """Gives the terminal to Textual under another descriptor, and number 2 to `log`: standard
    error, or where that is sent elsewhere standard output.

    So nothing that C code prints gets into the screen, and the screen gets into nothing that
    catches what C code prints (why llama.cpp refuses a grammar). On Windows Textual writes to
    standard output.
    """
    if sys.platform == "win32" or sys.__stderr__ is None:
        yield
        return
    try:
        log_descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError:
        yield
        return
    before = sys.stderr, sys.__stderr__
    encoding = sys.__stderr__.encoding
    error = os.dup(2)
    terminal = next((number for number in (2, 1) if os.isatty(number)), 2)
    with io.TextIOWrapper(
        io.BufferedWriter(_Terminal(os.dup(terminal), "w")),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=True,
    ) as screen:
        os.dup2(log_descriptor, 2)
        os.close(log_descriptor)
        sys.stderr = sys.__stderr__ = screen  # type: ignore[misc]
        try:
            yield
        finally:
            sys.stderr, sys.__stderr__ = before  # type: ignore[misc]
            os.dup2(error, 2)
            os.close(error)


class _Terminal(io.FileIO):
    """Takes whatever is written, even where the terminal is gone: an error would end the thread
    that writes, and then Textual waits for it for ever.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes
