"""The thread in which everything of a connection happens, an event loop of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LONGEST_S = 5.0  # that a task may take to end once it is cancelled


class NetworkThread:
    """Runs coroutines for other threads."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="specchat-network", daemon=True
        )
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def start(
        self, work: Coroutine[Any, Any, None], on_failure: Callable[[str], None]
    ) -> Future[None]:
        """Run `work`, which hands on what comes to whoever waits for it. `on_failure` is told, in
        one line, where it ends in any other way than by itself: so nobody waits for ever.
        """

        def ended(task: Future[None]) -> None:
            if task.cancelled():
                on_failure("the connection was closed")
            elif (error := task.exception()) is not None:
                logger.error("a network task failed", exc_info=error)
                fault = " ".join(f"{type(error).__name__}: {error}".split())
                on_failure(f"internal error ({fault}); see the log for details")

        task = self.submit(work)
        task.add_done_callback(ended)
        return task

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` and wait for it."""
        return self.submit(work).result()

    def close(self) -> None:
        """Cancel what still runs, and end the thread."""
        self.call(_cancel_others())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_LONGEST_S)
