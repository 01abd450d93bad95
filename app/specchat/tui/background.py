"""What the engine does while nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.runtime import Runtime
from specengine.chat.chat_template import Turn

_PAUSE_S = 0.6  # in typing, before what was typed is read
_REST_S = 10.0  # before the state is kept: most answers are followed by a question sooner


@dataclass(frozen=True, slots=True)
class Beginning:
    """What the next prompt begins with: a chat, and what is being typed after it."""

    turns: Sequence[Turn]
    typed: str
    options: AnswerOptions


class Background:
    """Reads ahead what the next prompt will begin with, and keeps the chat's state on disk.

    It waits for a pause, and stops at once when the person goes on.
    """

    def __init__(self, runtime: Runtime, next_prompt: Callable[[], Beginning | None]) -> None:
        """`next_prompt` gives None while the engine has something else to do."""
        self._runtime = runtime
        self.next_prompt = next_prompt
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """The person types or asks, or the chat or the model is another one."""
        self._runtime.stop_reading()
        self._changed.set()

    async def run(self) -> None:
        """Never ends."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not await self._is_quiet(_PAUSE_S):
                continue
            if (beginning := self.next_prompt()) is not None:
                await self._runtime.read_ahead(beginning.turns, beginning.typed, beginning.options)
                if await self._is_quiet(_REST_S):
                    await self.keep(self.next_prompt())

    async def keep(self, beginning: Beginning | None) -> None:
        """Keep the state of a chat now: another one is about to take its place."""
        if beginning is not None:
            await self._runtime.keep(beginning.turns, beginning.typed, beginning.options)

    async def _is_quiet(self, seconds: float) -> bool:
        """Whether nothing changes for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return True
        return False
