"""A file that a download appends to, hashed as it grows."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

_CHUNK = 1 << 20


class GrowingFile:
    """Bytes on disk and their SHA-256. What an earlier run left is hashed when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._file = path.open("r+b")
        self._rehash()

    def __enter__(self) -> GrowingFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    @property
    def size(self) -> int:
        return self._size

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def append(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._hash.update(chunk)
        self._size += len(chunk)

    def truncate(self, size: int) -> None:
        """Drop everything from `size` on."""
        if size < self._size:
            self._file.truncate(size)
            self._rehash()

    def sync(self) -> None:
        """Return when the bytes are on the disk, not only in its cache."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def _rehash(self) -> None:
        self._hash = hashlib.sha256()
        self._size = 0
        self._file.seek(0)
        while chunk := self._file.read(_CHUNK):
            self._hash.update(chunk)
            self._size += len(chunk)


def sha256_of(path: Path) -> str:
    """SHA-256 of a whole file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
