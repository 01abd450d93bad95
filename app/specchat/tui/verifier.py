"""Looks whether the target is back, while the last answer has words that it has not verified."""

from __future__ import annotations

import asyncio

from specchat.backends.runtime import Runtime
from specchat.tui.answering import Answering
from specchat.tui.conversation import Entry
from specchat.tui.open_chat import OpenChat

EVERY_S = 10.0


class Verifier:
    """Nobody waits for it, and nothing is begun while the person wants something else."""

    def __init__(self, runtime: Runtime, chat: OpenChat, answering: Answering) -> None:
        self._runtime = runtime
        self._chat = chat
        self._answering = answering

    async def run(self) -> None:
        """Looks every ten seconds, until it is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY_S)

    @property
    def has_work(self) -> bool:
        """Whether the last answer has words to verify, and the engine is free."""
        return self._unverified() is not None

    async def look(self) -> bool:
        """Begins to verify, if the target can be reached. Returns whether it began."""
        if self._unverified() is None or not await self._runtime.can_verify():
            return False
        entry = self._unverified()  # the person may have gone on meanwhile
        if entry is not None:
            self._answering.verify(entry)
        return entry is not None

    def _unverified(self) -> Entry | None:
        """The last answer, where the target could verify words of it and the engine is free."""
        profile, entries = self._answering.idle_profile, self._chat.conversation.entries
        if profile is None or not entries:
            return None
        last = entries[-1]
        return last if last.begun and last.model == profile.target else None
