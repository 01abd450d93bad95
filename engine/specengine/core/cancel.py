"""The flag that stops a running pass: set from any thread, read by llama.cpp in C."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class AbortFlag:
    """A byte in memory, set by any thread and polled by llama.cpp during a pass.

    llama.cpp calls its abort callback hundreds of times a pass. A Python callable would have to
    take the interpreter's lock each time and can cost as much as the pass; so the callback is a
    C function that only reads this memory: libc's `strlen` over a string of length 0 or 1.
    """

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(2)
        self._children: list[AbortFlag] = []

    def child(self) -> AbortFlag:
        """A flag that can be set alone, and is set and cleared with this one."""
        flag = AbortFlag()
        self._children.append(flag)
        return flag

    @property
    def address(self) -> int:
        """Address of the flag: the callback's user data."""
        return ctypes.addressof(self._memory)

    @property
    def callback_address(self) -> int:
        """Address of a C function of type `bool (*)(void *)` that is true while the flag is set."""
        return _strlen_address()

    def set(self) -> None:
        self._memory[0] = b"\x01"
        for flag in self._children:
            flag.set()

    def clear(self) -> None:
        self._memory[0] = b"\x00"
        for flag in self._children:
            flag.clear()

    def is_set(self) -> bool:
        return bool(self._memory[0] != b"\x00")


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


@functools.cache
def _strlen_address() -> int:
    libc: Any = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    address = ctypes.cast(libc.strlen, ctypes.c_void_p).value
    assert address is not None
    return address
