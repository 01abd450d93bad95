"""Chats to JSON and back: nothing is lost, and nothing wrong gets in."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from specchat.chats import ChatStore, Message
from specchat.chats.archive import archive, read_archive, restore
from specchat.errors import SpecchatError
from specengine.core.events import Unverified


@pytest.fixture
def chat_id(store: ChatStore) -> int:
    """A chat with two branches, of which the current one is not the newer."""
    chat = store.create_chat("tiny")
    question = store.add_message(chat.id, "user", "Đường?\0 \x1b[31m")
    answer = store.add_message(chat.id, "assistant", "", status="streaming", model="m")
    stats = {"timing": {"tokens_per_s": 12.5, "ttft_s": None}, "notice": "\ud800"}
    store.finish_message(
        answer.id,
        text="phố",
        tokens=[0, 70_000],
        status="length",
        stats=stats,
        unverified=Unverified(1, 2, "draft", seed=7),
        reasoning="nghĩ",
        answer_at=1,
    )
    store.add_message(chat.id, "assistant", "other", parent_id=question.id)
    store.set_head(chat.id, answer.id)
    return chat.id


def without_ids(messages: list[Message]) -> list[Message]:
    """The messages with positions in the place of ids."""
    position = {message.id: i for i, message in enumerate(messages)}
    return [
        replace(
            message,
            id=position[message.id],
            chat_id=0,
            parent_id=None if message.parent_id is None else position[message.parent_id],
        )
        for message in messages
    ]


def test_a_chat_comes_back_whole(store: ChatStore, chat_id: int) -> None:
    content = archive(store, [chat_id]).model_dump_json().encode()
    [copy] = restore(store, read_archive(content, "file"))
    assert copy != chat_id
    assert without_ids(store.tree(copy)) == without_ids(store.tree(chat_id))
    assert without_ids(store.messages(copy)) == without_ids(store.messages(chat_id))
    ids = {"id": 0, "head_id": None}
    assert replace(store.chat(copy), **ids) == replace(store.chat(chat_id), **ids)  # type: ignore[arg-type]
    assert [hit.chat_id for hit in store.search("duong")] == [chat_id, copy]


def test_an_answer_that_was_being_written_comes_back_interrupted(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    store.add_message(chat.id, "assistant", "half", status="streaming")
    [copy] = restore(store, archive(store, [chat.id]))
    assert [message.status for message in store.messages(copy)] == ["interrupted"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": "other"}, "format: "),
        ({"version": 2}, "version: "),
        ({"chats": 1}, "chats: "),
    ],
)
def test_another_kind_of_file_is_told(
    store: ChatStore, chat_id: int, change: dict[str, Any], complaint: str
) -> None:
    content = json.loads(archive(store, [chat_id]).model_dump_json()) | change
    with pytest.raises(
        SpecchatError, match=f"^file is not an export of specchat's chats: {complaint}"
    ):
        read_archive(json.dumps(content).encode(), "file")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"parent_id": 10**6}, "comes before its parent"),
        ({"parent_id": 3}, "comes before its parent"),
        ({"id": 1}, "two messages have the id 1"),
        ({"id": 77}, "head 2 is not a message"),
        ({"tokens": [-1]}, "token id is out of range"),
        ({"tokens": [2**31]}, "token id is out of range"),
        ({"created_at": "0001-01-01T00:00:00"}, "time is out of range"),
        (
            {"unverified": {"token": 3, "char": 0, "writer": "d", "seed": 1}},
            "a part of a message begins beyond its end",
        ),
        ({"answer_at": 3}, "begins beyond its end"),
        ({"role": "tool"}, "chats.0.messages.1.role: "),
        ({"text": None}, "chats.0.messages.1.text: "),
    ],
)
def test_a_damaged_chat_is_told_and_nothing_added(
    store: ChatStore, chat_id: int, change: dict[str, Any], complaint: str
) -> None:
    content = json.loads(archive(store, [chat_id]).model_dump_json())
    content["chats"][0]["messages"][1] |= change
    del content["chats"][0]["messages"][2]
    with pytest.raises(SpecchatError, match=complaint):
        restore(store, read_archive(json.dumps(content).encode(), "file"))
    assert len(store.chats()) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b'"\\ud800"', b"[" * 100_000])
def test_what_is_no_json_is_told_in_one_line(content: bytes) -> None:
    with pytest.raises(SpecchatError) as error:
        read_archive(content, "file")
    assert str(error.value).startswith("file is not an export of specchat's chats: ")
    assert "\n" not in str(error.value)
