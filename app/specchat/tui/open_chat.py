"""The chat on the screen, which is saved while it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from specchat.chats import ChatStore, GoneError
from specchat.errors import SpecchatError
from specchat.tui.conversation import Conversation
from specchat.tui.recorder import record
from specchat.tui.services import Services
from specchat.tui.widgets.transcript import NoteKind

_EVERY_S = 0.4
_RETRY_S = 5.0


class OpenChat:
    """One conversation at a time. Until there is a store nothing of it can be kept."""

    def __init__(self, services: Services, report: Callable[[str, NoteKind], None]) -> None:
        """`report` is told once of each problem with the saving, and when it is over."""
        self.conversation = Conversation()
        self.store: ChatStore | None = None
        self._services = services
        self._report = report
        self._problem = ""
        self._changed = asyncio.Event()
        self._saving = asyncio.Lock()
        self._is_known = asyncio.Event()
        """Whether there is a store. Set before it is looked for, too."""
        self._is_known.set()

    async def open_store(self) -> Conversation | None:
        """The chat that was changed last, if there is one. Raises SpecchatError."""
        self._is_known.clear()
        try:
            store = await asyncio.to_thread(self._services.open_store)
            last = await asyncio.to_thread(_last_chat, store)
            self.store = store
        finally:
            self._is_known.set()
        return last

    async def read(self, chat_id: int | None) -> Conversation:
        """A chat of the store, or a new one. Raises SpecchatError."""
        if chat_id is None or self.store is None:
            return Conversation()
        return await asyncio.to_thread(_read_chat, self.store, chat_id)

    def changed(self) -> None:
        """There is something new to save."""
        self._changed.set()

    async def keep_saving(self) -> None:
        """Saves a few times a second while the chat changes, until it is cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            saved = await self.save()
            await asyncio.sleep(_EVERY_S if saved else _RETRY_S)
            if not saved:
                self._changed.set()

    async def save(self) -> bool:
        """Whether the store has all of this chat, or another took its place meanwhile.

        True if there is no store, too. Waits for one that is being opened, if there is
        anything to save.
        """
        if self.conversation.entries:
            await self._is_known.wait()
        if self.store is None:
            return True
        async with self._saving:
            conversation = self.conversation
            problem = ""
            try:
                await self._record(conversation)
            except (SpecchatError, OSError) as error:
                if self.conversation is not conversation:
                    return True
                problem = str(error)
            if problem and problem != self._problem:
                self._report(f"Not saved, trying again: {problem}", "error")
            elif self._problem and not problem:
                self._report("Everything is saved again.", "info")
            self._problem = problem
            return not problem

    async def _record(self, conversation: Conversation) -> None:
        """Stores a chat that is gone from the store as a new one, unless it was deleted here.

        Raises SpecchatError and OSError.
        """
        assert self.store is not None
        profile = self._services.runtime.profile
        name = profile.name if profile else ""
        try:
            await record(self.store, conversation, name)
        except GoneError as error:
            if self.conversation is not conversation:
                raise
            store = await asyncio.to_thread(self._services.open_store)
            self.store, gone = store, self.store
            await asyncio.to_thread(gone.close)
            conversation.forget_stored()
            await record(self.store, conversation, name)
            if conversation.entries:
                self._report(
                    f"The saved chat is gone, so it was saved as a new one: {error}", "error"
                )

    async def versions(self) -> Mapping[int, Sequence[int]] | None:
        """As of `ChatStore.versions`; None if this chat cannot be saved, or is gone."""
        saved = await self.save()  # first: a new chat has no id before
        store, chat_id = self.store, self.conversation.chat_id
        if not saved or store is None or chat_id is None:
            return None
        with suppress(SpecchatError):  # deleted meanwhile
            return await asyncio.to_thread(store.versions, chat_id)
        return None

    async def go_to(self, message_id: int) -> None:
        """To the newest branch through a message of this chat. Raises SpecchatError."""
        store, conversation = self.store, self.conversation
        assert store is not None
        assert conversation.chat_id is not None
        await asyncio.to_thread(store.go_to, conversation.chat_id, message_id)
        conversation.go_to(await asyncio.to_thread(store.messages, conversation.chat_id))


def _last_chat(store: ChatStore) -> Conversation | None:
    newest = store.chats(limit=1)
    return _read_chat(store, newest[0].id) if newest else None


def _read_chat(store: ChatStore, chat_id: int) -> Conversation:
    return Conversation(store.chat(chat_id), store.messages(chat_id))
