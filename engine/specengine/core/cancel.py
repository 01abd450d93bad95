"""The flag that stops a running pass: set from any thread, read by llama.cpp in C."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class AbortFlag:
    """A byte in memory, set by any thread and polled by llama.cpp during a pass.

    It lies there as a C string of length 0 or 1: see `specengine.llama.abort`.
    """

    def __init__(self) -> None:
        self._memory = np.zeros(2, dtype=np.uint8)
        self._children: list[AbortFlag] = []

    def child(self) -> AbortFlag:
        """A flag that can be set alone, and is set and cleared with this one."""
        flag = AbortFlag()
        self._children.append(flag)
        return flag

    @property
    def address(self) -> int:
        """Where the byte lies: 1 while the flag is set, 0 otherwise; another 0 follows it."""
        return int(self._memory.ctypes.data)

    def set(self) -> None:
        self._memory[0] = 1
        for flag in self._children:
            flag.set()

    def clear(self) -> None:
        self._memory[0] = 0
        for flag in self._children:
            flag.clear()

    def is_set(self) -> bool:
        return bool(self._memory[0])


@contextmanager
def time_limit(flag: AbortFlag | None, seconds: float) -> Iterator[None]:
    """Set `flag`, if there is one, where what runs inside takes longer than `seconds`, to within
    half a second; clear it afterwards.
    """
    if flag is None:
        yield
        return
    watchdog = _watchdog()
    watchdog.watch(flag, time.monotonic() + seconds)
    try:
        yield
    finally:
        watchdog.release(flag)


class _Watchdog:
    """One thread that looks at all limits now and then: a timer for each round would cost as much
    as the rest of the loop.
    """

    _PERIOD_S = 0.5

    def __init__(self) -> None:
        self._deadlines: dict[AbortFlag, float] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="specengine-watchdog", daemon=True).start()

    def watch(self, flag: AbortFlag, deadline: float) -> None:
        with self._lock:
            self._deadlines[flag] = deadline

    def release(self, flag: AbortFlag) -> None:
        with self._lock:
            del self._deadlines[flag]
            flag.clear()

    def _run(self) -> None:
        while True:
            time.sleep(self._PERIOD_S)
            now = time.monotonic()
            with self._lock:
                for flag, deadline in self._deadlines.items():
                    if now > deadline:
                        flag.set()


@functools.cache
def _watchdog() -> _Watchdog:
    return _Watchdog()
