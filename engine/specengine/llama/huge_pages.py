"""Huge pages for weights, on Linux.

A pass over one token reads all weights once. In pages of 4 KB every page costs a walk through the
page tables, and the processor's prefetching stops at its end; in pages of 2 MB such a pass was
measured to take 10 to 15% less time. Most distributions give huge pages only to programs that ask
for them, and llama.cpp does not.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_MAPS = Path("/proc/self/maps")
_LARGE = 16 << 20  # bytes; of smaller mappings there is little to win
_MADV_HUGEPAGE = 14  # Linux's number, the same on all its platforms with huge pages


def ask() -> None:
    """Ask for huge pages in all large mappings of this process that no file lies behind.

    They are given as memory is first touched: so after the room for weights was set aside, and
    before it is filled. A kernel that has none refuses, and nothing is lost.
    """
    if not sys.platform.startswith("linux"):
        return  # macOS has none to give; Windows asks for an administrator's right
    madvise = ctypes.CDLL(None).madvise
    try:
        maps = _MAPS.read_bytes()
    except OSError:
        return  # a container may hide it
    for start, size in large_mappings(maps):
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _MADV_HUGEPAGE)


def mode() -> str | None:
    """When the kernel gives huge pages: "always", "madvise" (to those that ask) or "never"; None
    where it has none.
    """
    try:
        chosen = re.search(r"\[(\w+)\]", _MODE.read_text())
    except OSError:
        return None
    return chosen[1] if chosen else None


def large_mappings(maps: bytes) -> Iterator[tuple[int, int]]:
    """Start and size in bytes of what in `maps` (proc(5)) is large, writable and no file's.

    Names of files may hold any bytes but a line feed.
    """
    for line in filter(None, maps.split(b"\n")):
        span, access, *where = line.split(maxsplit=5)
        start, end = (int(address, 16) for address in span.split(b"-"))
        if access == b"rw-p" and len(where) == 3 and end - start >= _LARGE:
            yield start, end - start
