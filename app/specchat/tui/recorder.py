"""Writes the chat on the screen to the store, as far as the store lacks it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace

from specchat.chats import ChatStore
from specchat.tui.conversation import Conversation, Entry, Snapshot


@dataclass(frozen=True, slots=True)
class _Change:
    """A message that the store lacks, or has otherwise, and the one before it in its branch."""

    entry: Entry
    parent: Entry | None
    new: Snapshot

    @property
    def parent_id(self) -> int | None:
        return self.parent.stored_id if self.parent else None


async def record(store: ChatStore, conversation: Conversation, profile: str) -> None:
    """Writes what `store` does not have yet of `conversation`.

    It compares instead of being told, so a save that fails (a full disk) loses nothing: the next
    one catches up. Raises GoneError if what was stored is gone, else SpecchatError.
    """
    changes = list(_changes(conversation))
    await asyncio.to_thread(_write, store, conversation, profile, changes)


def _changes(conversation: Conversation) -> Iterator[_Change]:
    """Parents first. An answer is stored when it has begun."""
    parent: Entry | None = None
    for entry in conversation.entries:
        if entry.role == "assistant" and entry.status == "streaming" and entry.is_empty:
            continue
        new = entry.snapshot()
        if new != entry.stored:
            yield _Change(entry, parent, new)
        parent = entry


def _write(
    store: ChatStore, conversation: Conversation, profile: str, changes: list[_Change]
) -> None:
    store.check()  # where nothing is new, too: all of it may be gone
    for change in changes:
        stored = change.entry.stored or _add(store, conversation, profile, change)
        stored = _update(store, change, stored)
        _add_versions(store, conversation, change, stored)


def _add(store: ChatStore, conversation: Conversation, profile: str, change: _Change) -> Snapshot:
    """Returns what is stored then: the text, and that more may follow."""
    if conversation.chat_id is None:
        conversation.chat_id = store.create_chat(profile).id
    elif change.parent is None:
        store.set_head(conversation.chat_id, None)
    entry = change.entry
    message = store.add_message(
        conversation.chat_id,
        entry.role,
        change.new.text,
        parent_id=change.parent_id,
        status="streaming" if entry.role == "assistant" else change.new.status,
        model=entry.model,
    )
    entry.stored_id = message.id
    entry.stored = Snapshot(change.new.text, status=message.status)
    return entry.stored


def _update(store: ChatStore, change: _Change, old: Snapshot) -> Snapshot:
    """Returns what is stored then: all but other versions."""
    entry, new = change.entry, replace(change.new, replaced=old.replaced)
    assert entry.stored_id is not None
    continues = (
        new.text.startswith(old.text)
        and new.reasoning.startswith(old.reasoning)
        and new.tokens[: len(old.tokens)] == old.tokens
    )
    if (new.status, new.stats) != (old.status, old.stats) or not continues:
        store.finish_message(
            entry.stored_id,
            text=new.text,
            tokens=new.tokens,
            status=new.status,
            stats=new.stats,
            unverified=new.unverified,
            reasoning=new.reasoning,
            answer_at=new.answer_at,
        )
    elif new != old:
        store.append_to_message(
            entry.stored_id,
            new.text[len(old.text) :],
            new.tokens[len(old.tokens) :],
            new.unverified,
            new.reasoning[len(old.reasoning) :],
            new.answer_at,
        )
    entry.stored = new
    return new


def _add_versions(
    store: ChatStore, conversation: Conversation, change: _Change, stored: Snapshot
) -> None:
    """Other versions of an answer, each in a branch of its own."""
    assert conversation.chat_id is not None
    entry, versions = change.entry, change.new.replaced
    for count, version in enumerate(versions[len(stored.replaced) :], len(stored.replaced) + 1):
        store.add_message(
            conversation.chat_id,
            entry.role,
            version.text,
            parent_id=change.parent_id,
            tokens=version.tokens,
            model=entry.model,
            unverified=version.unverified,
            reasoning=version.reasoning,
            is_head=False,
        )
        entry.stored = replace(stored, replaced=versions[:count])
