"""Keeps the store in step with the chat on the screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from specchat.chats import ChatStore, GoneError
from specchat.chats.records import Status
from specchat.tui.conversation import Conversation, Entry
from specengine.core.events import Unverified, Version


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """An entry as it was when the saving began; the answer goes on meanwhile."""

    entry: Entry
    parent: Entry | None
    text: str
    tokens: tuple[int, ...]
    status: Status
    stats: dict[str, Any] | None
    unverified: Unverified | None
    replaced: tuple[Version, ...]
    revision: int

    @classmethod
    def of(cls, entry: Entry, parent: Entry | None) -> Self:
        return cls(
            entry,
            parent,
            entry.text,
            tuple(entry.tokens),
            entry.status,
            entry.stats,
            entry.unverified,
            tuple(entry.replaced),
            entry.revision,
        )


class Recorder:
    """Writes whatever the store does not have yet.

    It compares instead of being told, so a save that fails (a full disk) loses nothing: the next
    one catches up.
    """

    def __init__(self, store: ChatStore, open_store: Callable[[], ChatStore]) -> None:
        """`open_store` is for where the file of `store` is gone."""
        self.store = store
        self._open_store = open_store
        self._lock = asyncio.Lock()

    async def save(
        self, conversation: Conversation, profile: str, is_open: Callable[[], bool] = lambda: True
    ) -> GoneError | None:
        """Where what was stored of a chat that `is_open` is gone, it is stored anew, as a new chat,
        and what was gone is returned. Raises SpecchatError if the store cannot be written.
        """
        async with self._lock:
            try:
                await self._save(conversation, profile)
            except GoneError as error:
                if not is_open():  # the person deleted it here
                    raise
                self.store, gone = await asyncio.to_thread(self._open_store), self.store
                await asyncio.to_thread(gone.close)
                conversation.forget_stored()
                await self._save(conversation, profile)
                return error
            return None

    async def _save(self, conversation: Conversation, profile: str) -> None:
        await asyncio.to_thread(self._write, conversation, profile, _snapshots(conversation))

    def _write(
        self, conversation: Conversation, profile: str, snapshots: Sequence[_Snapshot]
    ) -> None:
        self.store.check()  # where nothing is new, too: all of it may be gone
        for snapshot in snapshots:
            if snapshot.entry.stored_id is None:
                self._add(conversation, profile, snapshot)
            else:
                self._extend(snapshot)
            self._add_versions(conversation, snapshot)

    def _add(self, conversation: Conversation, profile: str, new: _Snapshot) -> None:
        if conversation.chat_id is None:
            conversation.chat_id = self.store.create_chat(profile).id
        elif new.parent is None:
            self.store.set_head(conversation.chat_id, None)
        entry = new.entry
        message = self.store.add_message(
            conversation.chat_id,
            entry.role,
            new.text,
            parent_id=new.parent.stored_id if new.parent else None,
            status="streaming" if entry.role == "assistant" else new.status,
            model=entry.model,
        )
        entry.stored_id = message.id
        entry.stored_length = len(new.text)
        entry.stored_status = message.status
        self._extend(new)

    def _extend(self, new: _Snapshot) -> None:
        entry = new.entry
        assert entry.stored_id is not None
        if new.status != entry.stored_status or new.revision != entry.stored_revision:
            self.store.finish_message(
                entry.stored_id,
                text=new.text,
                tokens=new.tokens,
                status=new.status,
                stats=new.stats,
                unverified=new.unverified,
            )
        elif _has_grown(new):
            self.store.append_to_message(
                entry.stored_id,
                new.text[entry.stored_length :],
                new.tokens[entry.stored_tokens :],
                new.unverified,
            )
        entry.stored_length = len(new.text)
        entry.stored_tokens = len(new.tokens)
        entry.stored_status = new.status
        entry.stored_unverified = new.unverified
        entry.stored_revision = new.revision

    def _add_versions(self, conversation: Conversation, new: _Snapshot) -> None:
        """Other versions of an answer, each in a branch of its own."""
        assert conversation.chat_id is not None
        for version in new.replaced[new.entry.stored_replaced :]:
            self.store.add_message(
                conversation.chat_id,
                new.entry.role,
                version.text,
                parent_id=new.parent.stored_id if new.parent else None,
                tokens=version.tokens,
                model=new.entry.model,
                unverified=version.unverified,
                is_head=False,
            )
            new.entry.stored_replaced += 1


def _has_grown(new: _Snapshot) -> bool:
    entry = new.entry
    return (
        len(new.text) > entry.stored_length
        or len(new.tokens) > entry.stored_tokens
        or new.unverified != entry.stored_unverified
    )


def _snapshots(conversation: Conversation) -> list[_Snapshot]:
    """What the store lacks, parents first. An answer is stored when it has begun."""
    snapshots = []
    parent: Entry | None = None
    for entry in conversation.entries:
        if entry.role == "assistant" and entry.status == "streaming" and not entry.text:
            continue
        snapshot = _Snapshot.of(entry, parent)
        is_changed = entry.status != entry.stored_status or entry.revision != entry.stored_revision
        is_replaced = len(entry.replaced) > entry.stored_replaced
        if is_changed or is_replaced or _has_grown(snapshot):
            snapshots.append(snapshot)
        parent = entry
    return snapshots
