"""The one thread that does all llama.cpp work, for as long as the process lives.

A second thread that once decoded slows small passes (OpenMP keeps a pool for each), and a llama.cpp
context belongs to the thread that uses it: so everything else hands its work over here.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class EngineThread:
    """Runs jobs one after another in one daemon thread."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="specengine", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Run `job` after those already submitted."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = job()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._jobs.put(work)
        return future

    def call(self, job: Callable[[], T]) -> T:
        """Run `job` in the engine thread and wait for it."""
        return self.submit(job).result()

    def close(self, timeout: float | None = None) -> None:
        """Finish the submitted jobs and end the thread; call before the interpreter exits."""
        self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def __enter__(self) -> EngineThread:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
