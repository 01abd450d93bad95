"""The caches of chats on disk: a chat that is opened again goes on at once.

A file for each chat, which this program alone has written and which is not believed: what is cut
off, damaged, or of another model or build is not given to llama.cpp, and the text is evaluated.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import threading
from collections.abc import Callable, Container
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specengine.cache.context import SavedCache
from specengine.core.tokens import Tokens

logger = logging.getLogger(__name__)

WORTHWHILE = 256
"""Tokens; evaluating fewer is not worth the disk."""

_SPARE_BYTES = 2 * 2**30  # left free on the disk
_PIECE = 8 * 2**20
_MAX_HEADER = 1024
_DIGEST_SIZE = 32
_SUFFIX = ".state"


class _Header(BaseModel):
    """The first line of a file; token ids, llama.cpp's state and a hash of all that follow."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["specchat state 1"]
    key: str
    """What the state holds good for: `Pair.state_key`."""
    n_tokens: Annotated[int, Field(ge=1, le=2**24)]
    width_step: Annotated[int, Field(ge=1, le=1024)]
    n_bytes: Annotated[int, Field(ge=1, le=2**40)]


class KeptStates:
    """Files below `folder`, at most `max_bytes` together and half of that each; those that were
    used least recently go first. Threads may share it.

    Nothing here raises: a state that cannot be kept or read costs an evaluation.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._forgotten: set[int] = set()
        self._closed = threading.Event()

    def tokens(self, chat_id: int, key: str) -> Tokens | None:
        """What the file of a chat says that it holds, under `key`; None if there is none."""
        with contextlib.suppress(OSError), self._file(chat_id).open("rb") as file:
            if (found := _open(file, key)) is not None:
                return found[1]
        return None

    def load(self, chat_id: int, key: str) -> SavedCache | None:
        """What was kept of a chat under `key`. A file that is damaged is deleted."""
        path = self._file(chat_id)
        try:
            with path.open("rb") as file:
                if (found := _open(file, key)) is None:
                    return None
                saved = _read(file, *found)
            if saved is None:
                logger.warning("%s is damaged: what it holds is evaluated again", path)
                path.unlink()
            else:
                os.utime(path)
        except (OSError, MemoryError) as error:
            logger.info("%s cannot be used: %s", path, error)
            return None
        return saved

    def save(self, chat_id: int, key: str, saved: SavedCache) -> bool:
        """Keep `saved` in place of what was kept of the chat; whether that was possible."""
        path = self._file(chat_id)
        new = path.with_suffix(f".{os.getpid()}.new")
        with self._lock:
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if not self._make_room(saved.state.nbytes + 4 * len(saved.tokens), path):
                    return False
                _write(new, key, saved, self._closed.is_set)
                if chat_id in self._forgotten:
                    return False
                new.replace(path)
            except (OSError, InterruptedError) as error:
                logger.info("the state of chat %d is not kept: %s", chat_id, error)
                return False
            finally:
                with contextlib.suppress(OSError):
                    new.unlink(missing_ok=True)
        return True

    def forget(self, chat_id: int) -> None:
        """Delete what was kept of a chat that is gone; nothing is kept of it any more."""
        self._forgotten.add(chat_id)
        with self._lock, contextlib.suppress(OSError):
            self._file(chat_id).unlink(missing_ok=True)

    def keep_only(self, chat_ids: Container[int]) -> None:
        """Delete what belongs to none of these chats, and what is beyond the limit."""
        with self._lock, contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                number = path.stem
                if path.suffix != _SUFFIX or not (number.isdecimal() and int(number) in chat_ids):
                    path.unlink(missing_ok=True)
            self._evict(self._max_bytes)

    def close(self) -> None:
        """Give up what is being written."""
        self._closed.set()

    def _file(self, chat_id: int) -> Path:
        return self._folder / f"{chat_id}{_SUFFIX}"

    def _make_room(self, size: int, path: Path) -> bool:
        is_free = shutil.disk_usage(self._folder).free - size >= _SPARE_BYTES
        if size > self._max_bytes // 2 or not is_free:
            return False
        path.unlink(missing_ok=True)
        self._evict(self._max_bytes - size)
        return True

    def _evict(self, max_bytes: int) -> None:
        found = [(path.stat(), path) for path in self._folder.glob(f"*{_SUFFIX}")]
        total = sum(status.st_size for status, _ in found)
        for status, path in sorted(found, key=lambda each: each[0].st_mtime_ns):
            if total <= max_bytes:
                break
            path.unlink(missing_ok=True)
            total -= status.st_size


def _write(path: Path, key: str, saved: SavedCache, is_closed: Callable[[], bool]) -> None:
    """Raises InterruptedError if `is_closed` becomes true meanwhile."""
    header = _Header(
        format="specchat state 1",
        key=key,
        n_tokens=len(saved.tokens),
        width_step=saved.width_step,
        n_bytes=saved.state.nbytes,
    )
    digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
    descriptor = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600
    )
    with os.fdopen(descriptor, "wb") as file:
        line = f"{header.model_dump_json()}\n".encode()
        for part in (line, saved.tokens.astype("<i4").data, saved.state.data):
            view = memoryview(part).cast("B")
            for start in range(0, len(view), _PIECE):
                if is_closed():
                    raise InterruptedError("the program ends")
                digest.update(view[start : start + _PIECE])
                file.write(view[start : start + _PIECE])
        file.write(digest.digest())


def _open(file: BufferedReader, key: str) -> tuple[_Header, Tokens] | None:
    """The header and the token ids; None if the file is damaged or of another key."""
    try:
        header = _Header.model_validate_json(file.readline(_MAX_HEADER))
    except ValidationError:
        return None
    size = file.tell() + 4 * header.n_tokens + header.n_bytes + _DIGEST_SIZE
    if header.key != key or os.fstat(file.fileno()).st_size != size:
        return None
    return header, np.frombuffer(file.read(4 * header.n_tokens), dtype="<i4").astype(np.int32)


def _read(file: BufferedReader, header: _Header, tokens: Tokens) -> SavedCache | None:
    """What follows the token ids; None if the hash is another."""
    state = np.empty(header.n_bytes, dtype=np.uint8)
    n_read = file.readinto(state.data)
    digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
    digest.update(f"{header.model_dump_json()}\n".encode())
    digest.update(tokens.astype("<i4").data)
    digest.update(state.data)
    if n_read != header.n_bytes or file.read() != digest.digest():
        return None
    return SavedCache(tokens, header.width_step, state)
