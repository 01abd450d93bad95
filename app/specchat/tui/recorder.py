"""Writes the chat on the screen to the store, as far as the store lacks it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from specchat.chats import ChatStore
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


async def record(store: ChatStore, conversation: Conversation, profile: str) -> None:
    """Writes what `store` does not have yet of `conversation`.

    It compares instead of being told, so a save that fails (a full disk) loses nothing: the next
    one catches up. Raises GoneError where what was stored is gone, else SpecchatError.
    """
    await asyncio.to_thread(_write, store, conversation, profile, _snapshots(conversation))


def _write(
    store: ChatStore, conversation: Conversation, profile: str, snapshots: Sequence[_Snapshot]
) -> None:
    store.check()  # where nothing is new, too: all of it may be gone
    for snapshot in snapshots:
        if snapshot.entry.stored_id is None:
            _add(store, conversation, profile, snapshot)
        else:
            _extend(store, snapshot)
        _add_versions(store, conversation, snapshot)


def _add(store: ChatStore, conversation: Conversation, profile: str, new: _Snapshot) -> None:
    if conversation.chat_id is None:
        conversation.chat_id = store.create_chat(profile).id
    elif new.parent is None:
        store.set_head(conversation.chat_id, None)
    entry = new.entry
    message = store.add_message(
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
    _extend(store, new)


def _extend(store: ChatStore, new: _Snapshot) -> None:
    entry = new.entry
    assert entry.stored_id is not None
    if new.status != entry.stored_status or new.revision != entry.stored_revision:
        store.finish_message(
            entry.stored_id,
            text=new.text,
            tokens=new.tokens,
            status=new.status,
            stats=new.stats,
            unverified=new.unverified,
        )
    elif _has_grown(new):
        store.append_to_message(
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


def _add_versions(store: ChatStore, conversation: Conversation, new: _Snapshot) -> None:
    """Other versions of an answer, each in a branch of its own."""
    assert conversation.chat_id is not None
    for version in new.replaced[new.entry.stored_replaced :]:
        store.add_message(
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
