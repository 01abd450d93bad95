"""Runs code that came from a stranger within limits of processor time and memory."""

from __future__ import annotations

import itertools
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

MAX_SECONDS = 2.0
MAX_BYTES = 256 * 2**20

_STEPS_PER_CLOCK_READING = 64  # the clock costs more than all the rest


class LimitExceededError(BaseException):
    """Ends the watched code. Not an Exception, so that nothing on the way up takes it for one."""


_watching = threading.Lock()  # tracemalloc is one for the whole process


@contextmanager
def watched(filename: str) -> Iterator[None]:
    """Ends what this thread runs inside once it computed MAX_SECONDS or took MAX_BYTES.

    Raises LimitExceededError between two byte codes of the code compiled from `filename`, or at
    a call of another Python function. A single call into C cannot be interrupted.
    """
    steps = itertools.count()

    def check(frame: FrameType, event: str, arg: object) -> Any:
        if tracemalloc.get_traced_memory()[0] - before > MAX_BYTES:
            raise LimitExceededError(f"needs more than {MAX_BYTES >> 20} MiB")
        if next(steps) % _STEPS_PER_CLOCK_READING == 0 and time.thread_time() > deadline:
            raise LimitExceededError(f"takes longer than {MAX_SECONDS:g} s")
        if frame.f_code.co_filename != filename:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return check

    with _watching:
        started_here = not tracemalloc.is_tracing()
        if started_here:
            tracemalloc.start(1)
        before = tracemalloc.get_traced_memory()[0]
        deadline = time.thread_time() + MAX_SECONDS
        outer = sys.gettrace()
        sys.settrace(check)
        try:
            yield
        finally:
            sys.settrace(outer)
            if started_here:
                tracemalloc.stop()
