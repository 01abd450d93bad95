"""A lock between processes that the operating system drops when its holder dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from specchat.models.errors import DownloadCancelledError

_POLL_S = 0.25


@contextmanager
def locked(path: Path, cancel: Event, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold `path` for the block; `on_wait` is called now and then while another holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        while not _try_lock(descriptor):
            on_wait()
            if cancel.wait(_POLL_S):
                raise DownloadCancelledError("stopped waiting for the download of another specchat")
        yield
    finally:
        os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
