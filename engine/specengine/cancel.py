"""The flag that stops a running pass: set from any thread, read by llama.cpp in C."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import sys
from typing import Any


class AbortFlag:
    """A byte in memory, set by any thread and polled by llama.cpp during a pass.

    llama.cpp calls its abort callback hundreds of times a pass. A Python callable would have to
    take the interpreter's lock each time and can cost as much as the pass; so the callback is a
    C function that only reads this memory: libc's `strlen` over a string of length 0 or 1.
    """

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(2)

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

    def clear(self) -> None:
        self._memory[0] = b"\x00"

    def is_set(self) -> bool:
        return bool(self._memory[0] != b"\x00")


@functools.cache
def _strlen_address() -> int:
    libc: Any = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    address = ctypes.cast(libc.strlen, ctypes.c_void_p).value
    assert address is not None
    return address
