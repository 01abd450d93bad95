"""What ends a run before its time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""Exit code of a run that was interrupted and shows what it had measured."""


@contextmanager
def ended_as_by_ctrl_c() -> Iterator[None]:
    """`kill`, and the end of the terminal, are Ctrl-C for the length of the `with` block: what was
    measured is kept, and the servers that a run starts end with it. `nohup` has its way.
    """
    names = ("SIGTERM", "SIGHUP")  # the latter is not on Windows
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(number, frame)
    raise KeyboardInterrupt  # what shells run in the background ignores Ctrl-C, and not this
