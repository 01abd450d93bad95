"""The runtime as the screen uses it: one thing at a time, and every failure one line of text."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.backend import Event
from specchat.backends.runtime import Runtime
from specchat.errors import SpecchatError
from specchat.models.errors import DownloadCancelledError
from specchat.models.registry import Profile
from specengine.chat.chat_template import Turn
from specengine.core.errors import CancelledError, SpecEngineError
from specengine.core.events import Finished, Progress
from specengine.core.statistics import Statistics

logger = logging.getLogger(__name__)


class Engine:
    """Loads and answers in turn: what comes next waits for what runs, or stops it."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._turn = asyncio.Lock()
        self._asked: Profile | None = None

    @property
    def asked(self) -> Profile | None:
        """What was to be loaded, before a server said more of it."""
        return None if self.runtime.profile is None else self._asked

    @property
    def is_busy(self) -> bool:
        return self._turn.locked()

    async def load(self, profile: Profile, on_progress: Callable[[Progress], None]) -> bool:
        """Loads `profile` in place of what runs and what is loaded; False if it was stopped.

        `on_progress` is called in this thread. Raises SpecchatError; then, as after a stop, what
        was loaded may still be (see `runtime.profile`).
        """
        loop = asyncio.get_running_loop()

        def report(event: Progress) -> None:
            with suppress(RuntimeError):  # the loop is closed: the person has left meanwhile
                loop.call_soon_threadsafe(on_progress, event)

        self.stop()
        async with self._turn:
            try:
                await self.runtime.load(profile, report)
            except (DownloadCancelledError, CancelledError):
                return False
            except Exception as error:
                raise SpecchatError(_explain(error)) from error
        self._asked = profile
        return True

    async def answer(self, turns: Sequence[Turn], options: AnswerOptions) -> AsyncIterator[Event]:
        """The runtime's events; ends with a Finished even where the runtime fails."""
        async with self._turn:
            try:
                async for event in self.runtime.answer(turns, options):
                    yield event
            except Exception as error:
                yield Finished("error", "", (), Statistics(), _explain(error))

    def stop(self) -> None:
        """Ends what runs, soon."""
        if self.is_busy:
            self.runtime.cancel()


def _explain(error: Exception) -> str:
    if isinstance(error, SpecchatError | SpecEngineError):
        return str(error)
    logger.error("the model failed", exc_info=error)
    return f"the model failed ({type(error).__name__}: {error}); see the log for details"
