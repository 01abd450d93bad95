"""Chats as a JSON file: everything that the store knows of them, all branches included."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, Self

from pydantic import BaseModel, ValidationError, model_validator

from specchat.chats.records import Chat, Message
from specchat.chats.store import ChatStore
from specchat.errors import SpecchatError, first_fault


class ArchivedChat(BaseModel):
    """A chat and its tree, parents before children. Ids mean nothing outside of it."""

    chat: Chat
    messages: list[Message]

    @model_validator(mode="after")
    def _is_a_tree(self) -> Self:
        known: set[int | None] = {None}
        for message in self.messages:
            if message.id in known:
                raise ValueError(f"two messages have the id {message.id}")
            if message.parent_id not in known:
                raise ValueError(f"message {message.id} comes before its parent")
            known.add(message.id)
        if self.chat.head_id not in known:
            raise ValueError(f"the head {self.chat.head_id} is not a message of the chat")
        return self

    @model_validator(mode="after")
    def _can_be_stored(self) -> Self:
        times = [self.chat.created_at, self.chat.updated_at]
        times += [message.created_at for message in self.messages]
        if any(not _can_be_a_timestamp(time) for time in times):
            raise ValueError("a time is out of range")
        if any(not 0 <= token < 2**31 for message in self.messages for token in message.tokens):
            raise ValueError("a token id is out of range")
        if any(not _is_within(message) for message in self.messages):
            raise ValueError("a part of a message begins beyond its end")
        return self


class Archive(BaseModel):
    """The file. Keys that are added later do not change the version."""

    format: Literal["specchat-chats"]
    version: Literal[1]
    chats: list[ArchivedChat]


def archive(store: ChatStore, chat_ids: Iterable[int]) -> Archive:
    """Raises SpecchatError if there is no such chat."""
    chats = [ArchivedChat(chat=store.chat(i), messages=store.tree(i)) for i in chat_ids]
    return Archive(format="specchat-chats", version=1, chats=chats)


def read_archive(content: bytes, name: str) -> Archive:
    """The archive in `content`, which came from the file `name`. Raises SpecchatError."""
    try:
        return Archive.model_validate_json(content)
    except ValidationError as error:
        raise SpecchatError(
            f"{name} is not an export of specchat's chats: {first_fault(error)}"
        ) from error


def restore(store: ChatStore, archive: Archive) -> list[int]:
    """Adds copies of all chats; returns their new ids, in the archive's order."""
    return [store.add_chat(chat.chat, chat.messages) for chat in archive.chats]


def _is_within(message: Message) -> bool:
    if not 0 <= message.answer_at <= len(message.tokens):
        return False
    mark = message.unverified
    if mark is None:
        return True
    return 0 <= mark.token <= len(message.tokens) and 0 <= mark.char <= len(message.text)


def _can_be_a_timestamp(time: datetime) -> bool:
    # Some platforms have no earlier times, and none has later ones.
    return 1971 <= time.year <= 9998
