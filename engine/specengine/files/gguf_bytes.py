"""Entries of a GGUF header as bytes: what programs that write one put together."""

from __future__ import annotations

import struct

from specengine.files.gguf import Value

VERSION = 3
BOOL, STRING, ARRAY, U32, F32 = 7, 8, 9, 4, 6


def header(n_tensors: int, entries: list[bytes]) -> bytes:
    """The beginning of a file: its metadata, before the table of its tensors."""
    return b"GGUF" + struct.pack("<IQQ", VERSION, n_tensors, len(entries)) + b"".join(entries)


def entry(key: str, value: Value) -> bytes:
    """One setting. Raises struct.error for a number that its type does not hold."""
    if isinstance(value, bool):
        return string(key) + struct.pack("<I?", BOOL, value)
    if isinstance(value, str):
        return string(key) + struct.pack("<I", STRING) + string(value)
    if isinstance(value, float):
        return string(key) + struct.pack("<If", F32, value)
    return string(key) + struct.pack("<II", U32, value)


def array_entry(key: str, kind: int, count: int, data: bytes) -> bytes:
    """An array of `count` values of the type with number `kind`."""
    return string(key) + struct.pack("<IIQ", ARRAY, kind, count) + data


def string(text: str) -> bytes:
    """Bytes that were no UTF-8 in the file that they came from become what they were."""
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data
