"""Calls into C that nothing can stop, and an end to how long somebody waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from specengine.core.cancel import AbortFlag
from specengine.core.errors import CancelledError
from specengine.core.thread import EngineThread

T = TypeVar("T")

_POLL_S = 0.05  # between two looks at the abort flag


class BoundedThread:
    """A thread for the work of one owner, who may leave it behind amid a call.

    The call then goes on to its end, which may be far; with it the thread ends.
    """

    _behind: set[BoundedThread] = set()  # noqa: RUF012, one for the process
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._thread = EngineThread()
        self._left = threading.Event()

    @classmethod
    def left_behind(cls) -> int:
        """How many threads are still at work that nobody waits for."""
        with cls._lock:
            return len(cls._behind)

    @property
    def is_left(self) -> bool:
        """Whether nobody waits any more: for the work to look at between two calls."""
        return self._left.is_set()

    def call(
        self,
        work: Callable[[], T],
        seconds: float,
        abort: AbortFlag | None,
        afterwards: Callable[[], None],
    ) -> T:
        """What `work` returns. Raises TimeoutError after so many seconds, CancelledError where
        `abort` is set before; `afterwards` is then called when `work` has ended, and this thread
        must not be used again.
        """
        done = self._thread.submit(work)
        deadline = time.monotonic() + seconds
        while True:
            try:
                return done.result(min(_POLL_S, max(0.0, deadline - time.monotonic())))
            except TimeoutError:
                if done.done():
                    return done.result()  # it came at the last moment, or was that error
                if abort is not None and abort.is_set():
                    self._leave(afterwards)
                    raise CancelledError("cancelled") from None
                if time.monotonic() >= deadline:
                    self._leave(afterwards)
                    raise

    def close(self) -> None:
        """End the thread; what it still does is not waited for."""
        self._thread.close(timeout=0)

    def _leave(self, afterwards: Callable[[], None]) -> None:
        def end() -> None:
            with self._lock:
                self._behind.discard(self)
            afterwards()

        self._left.set()
        with self._lock:
            self._behind.add(self)
        self._thread.submit(end)
        self.close()
