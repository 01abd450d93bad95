"""A compile of minutes, told in one line: what pip's verbose output says is reduced to that."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from typing import TextIO

_STEP = re.compile(r"\s*\[(\d+)/(\d+)\] ")
_STAGES = {
    "Collecting llama-cpp-python": "fetching the source",
    "Installing build dependencies": "fetching the build tools",
    "*** Configuring CMake": "configuring",
    "*** Making wheel": "packing",
}
_PLAIN_STEPS = 10  # lines in a log file instead of one line that changes


def stage_of(line: str) -> tuple[str, int, int] | None:
    """(stage, step, steps) where a line of pip's output begins one; steps is 0 where unknown."""
    if step := _STEP.match(line):
        return "compiling", int(step[1]), int(step[2])
    begun = (stage for start, stage in _STAGES.items() if line.strip().startswith(start))
    return next(((stage, 0, 0) for stage in begun), None)


class Progress:
    """Shows stages on `stream`: one changing line on a terminal, else a line now and then."""

    def __init__(
        self, stream: TextIO = sys.stderr, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._clock = clock
        self._start = clock()
        self._shown: tuple[str, int] | None = None

    def show(self, stage: str, step: int, steps: int) -> None:
        if self._terminal:
            count = f" {step}/{steps}" if steps else ""
            self._stream.write(f"\r\x1b[Kllama.cpp: {stage}{count} · {self._elapsed()}")
            self._stream.flush()
            return
        milestone = (stage, step * _PLAIN_STEPS // steps if steps else 0)
        if milestone != self._shown:
            self._shown = milestone
            count = f" {step}/{steps}" if steps else ""
            print(f"llama.cpp: {stage}{count} ({self._elapsed()})", file=self._stream, flush=True)

    def close(self) -> None:
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(self._clock() - self._start), 60)
        return f"{minutes}:{seconds:02d}"
