"""The chat on the screen, and what the store has of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from specchat.chats import ChatStore
from specchat.errors import SpecchatError
from specchat.tui.conversation import Conversation
from specchat.tui.recorder import Recorder
from specchat.tui.saver import Report, Saver
from specchat.tui.services import Services


class OpenChat:
    """One conversation at a time. Until there is a store nothing of it can be kept."""

    def __init__(self, services: Services, report: Report) -> None:
        """`report` is told what goes wrong with the saving."""
        self.conversation = Conversation()
        self._services = services
        self._report = report
        self._recorder: Recorder | None = None
        self._saver: Saver | None = None
        self._is_known = asyncio.Event()
        """Whether there is a store. Set before it is looked for, too."""
        self._is_known.set()

    @property
    def store(self) -> ChatStore | None:
        return self._recorder.store if self._recorder else None

    async def open_store(self) -> Conversation | None:
        """The chat that was changed last, if there is one. Raises SpecchatError."""
        open_store = self._services.open_store
        self._is_known.clear()
        try:
            store = await asyncio.to_thread(open_store)
            last = await asyncio.to_thread(_last_chat, store)
            self._recorder = Recorder(store, open_store)
            self._saver = Saver(self._recorder, self._current, self._report)
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
        if self._saver is not None:
            self._saver.changed()

    async def keep_saving(self) -> None:
        """Never ends. The store is open."""
        assert self._saver is not None
        await self._saver.run()

    async def save(self) -> bool:
        """Whether the store has all of this chat; where there is no store nothing can be kept.

        Waits for one that is being opened, if there is anything to save.
        """
        if self.conversation.entries:
            await self._is_known.wait()
        return self._saver is None or await self._saver.save()

    async def versions(self) -> Mapping[int, Sequence[int]] | None:
        """As of `ChatStore.versions`; None where this chat cannot be saved, or is gone."""
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

    def _current(self) -> tuple[Conversation, str]:
        profile = self._services.runtime.profile
        return self.conversation, profile.name if profile else ""


def _last_chat(store: ChatStore) -> Conversation | None:
    newest = store.chats(limit=1)
    return _read_chat(store, newest[0].id) if newest else None


def _read_chat(store: ChatStore, chat_id: int) -> Conversation:
    return Conversation(store.chat(chat_id), store.messages(chat_id))
