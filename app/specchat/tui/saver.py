"""Saves the chat on the screen while it changes, and goes on trying where that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from specchat.errors import SpecchatError
from specchat.tui.conversation import Conversation
from specchat.tui.recorder import Recorder
from specchat.tui.widgets.transcript import NoteKind

Current = Callable[[], tuple[Conversation, str]]
"""The conversation on the screen, and the name of the profile that answers."""

Report = Callable[[str, NoteKind], None]

_EVERY_S = 0.4
_RETRY_S = 5.0


class Saver:
    """A few times a second, if anything changed. A new problem is reported once."""

    def __init__(self, recorder: Recorder, current: Current, report: Report) -> None:
        self._recorder = recorder
        self._current = current
        self._report = report
        self._changed = asyncio.Event()
        self._problem = ""

    def changed(self) -> None:
        """There is something new to save."""
        self._changed.set()

    async def run(self) -> None:
        """Never ends."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            saved = await self.save()
            await asyncio.sleep(_EVERY_S if saved else _RETRY_S)
            if not saved:
                self._changed.set()

    async def save(self) -> bool:
        """Whether the store has all of the chat now, or another chat took its place meanwhile."""
        conversation, profile = self._current()
        problem = ""
        try:
            gone = await self._recorder.save(
                conversation, profile, lambda: self._current()[0] is conversation
            )
            if gone and conversation.entries:
                self._report(f"This chat was gone, and is saved as a new one: {gone}", "error")
        except (SpecchatError, OSError) as error:
            if self._current()[0] is not conversation:
                return True
            problem = str(error)
        if problem and problem != self._problem:
            self._report(f"Not saved, trying again: {problem}", "error")
        elif self._problem and not problem:
            self._report("Everything is saved again.", "info")
        self._problem = problem
        return not problem
