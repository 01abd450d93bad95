"""The versions of a message: answers that were made again, questions that were edited."""

from __future__ import annotations

from textual.screen import Screen

from specchat.tui.open_chat import OpenChat
from specchat.tui.widgets.message import MessageView


class Versions:
    """Shows which of how many versions each message is, and goes to the others."""

    def __init__(self, screen: Screen[None], chat: OpenChat) -> None:
        self._screen = screen
        self._chat = chat

    def show(self) -> None:
        """Shows the places of the messages, as soon as the chat is saved."""
        self._screen.run_worker(self._show(), group="places", exclusive=True)

    async def _show(self) -> None:
        conversation = self._chat.conversation
        if (versions := await self._chat.versions()) is not None:
            conversation.number(versions)
            for view in self._screen.query(MessageView):
                view.show_place()

    async def go(self, step: int) -> bool:
        """To another version of the last message that has one, and to what follows there.

        Whether the conversation is another one now. Raises SpecchatError.
        """
        versions = await self._chat.versions()
        if versions is None:
            return False
        conversation = self._chat.conversation
        ids = [entry.stored_id for entry in conversation.entries]
        here = next((i for i in reversed(ids) if i in versions), None)
        if here is None:
            self._screen.notify(
                "No message here has another version: Ctrl+R makes one, and so does editing."
            )
            return False
        others = versions[here]
        await self._chat.go_to(others[(others.index(here) + step) % len(others)])
        conversation.number(versions)
        return True
