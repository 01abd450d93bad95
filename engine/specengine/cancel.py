"""The flag that stops a running pass: set from any thread, read by llama.cpp in C."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import sys
import threading
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
    """Set `flag`, if there is one, where what runs inside takes longer than `seconds`; clear it
    afterwards.
    """
    if flag is None:
        yield
        return
    timer = threading.Timer(seconds, flag.set)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        flag.clear()


@functools.cache
def _strlen_address() -> int:
    libc: Any = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    address = ctypes.cast(libc.strlen, ctypes.c_void_p).value
    assert address is not None
    return address
