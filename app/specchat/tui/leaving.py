"""Leaving the program, so that nothing that was said or typed is lost."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from textual.screen import Screen

from specchat.tui.answering import Answering
from specchat.tui.background import Background
from specchat.tui.export import recovered, save_recovered
from specchat.tui.open_chat import OpenChat
from specchat.tui.services import Services
from specchat.tui.widgets.prompt import Prompt
from specchat.tui.widgets.queue import Queue

_PATIENCE_S = 2.0
_SECOND_PRESS_S = 2.0


class Leaving:
    """What the chat does when it is told to end."""

    def __init__(
        self,
        screen: Screen[None],
        services: Services,
        chat: OpenChat,
        answering: Answering,
        background: Background,
    ) -> None:
        self._screen = screen
        self._services = services
        self._chat = chat
        self._answering = answering
        self._background = background
        self._pressed = float("-inf")

    def is_meant(self) -> bool:
        """Whether Ctrl+C was pressed a second time; tells the person that it takes two."""
        if time.monotonic() - self._pressed < _SECOND_PRESS_S:
            return True
        self._pressed = time.monotonic()
        self._screen.notify("Ctrl+C again leaves, and so does Ctrl+Q.", timeout=_SECOND_PRESS_S)
        return False

    async def shut_down(self) -> str:
        """Ends the answer, saves all there is, frees the models; within a few seconds.

        Returns what to tell the person where something could not be saved, else nothing.
        """
        unsent = self._screen.query_one(Queue).take_all()
        typed = self._screen.query_one(Prompt).message
        is_kept = await self._keep(typed)
        self._answering.engine.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self._answering.ended()
        for text in unsent:
            self._chat.conversation.ask(text)
        saved = await self._chat.save()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self._background.keep(self._background.next_prompt())
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self._answering.engine.runtime.close()
        return "" if saved and is_kept else await self._recover("" if is_kept else typed)

    async def _recover(self, typed: str) -> str:
        """Writes the chat to the temporary folder; returns where, or else the chat itself."""
        conversation = self._chat.conversation
        try:
            path = await asyncio.to_thread(save_recovered, conversation, typed)
        except OSError as error:
            return (
                f"the chat could not be saved, nor written to the temporary folder ({error}); "
                f"here it is:\n\n{recovered(conversation, typed)}"
            )
        return f"the end of this chat could not be saved; all of it is in {path}"

    async def _keep(self, typed: str) -> bool:
        """Whether what was typed will be there at the next start."""
        try:
            if typed:
                await asyncio.to_thread(self._services.keep_unsent, typed)
        except OSError:
            return False
        return True
