"""What the store gets of the chat on the screen: each thing once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from specchat.chats import ChatStore
from specchat.errors import SpecchatError
from specchat.tui.conversation import Conversation
from specchat.tui.recorder import Recorder
from specengine.core.events import Reviewed, Version
from specengine.core.statistics import Statistics


@pytest.fixture
def store(tmp_path: Path) -> ChatStore:
    return ChatStore(tmp_path / "chats.db")


@pytest.fixture
def recorder(store: ChatStore) -> Recorder:
    return Recorder(store, lambda: store)


def texts(store: ChatStore) -> list[str]:
    """Of all chats and branches, oldest first."""
    return sorted(m.text for chat in store.chats() for m in store.tree(chat.id))


def replaced_once() -> Conversation:
    """A question, and an answer in the place of a version that was shown before."""
    conversation = Conversation()
    conversation.ask("question")
    answer = conversation.answer("model")
    now, before = Version("now", (2,), None), Version("before", (1,), None)
    answer.review(Reviewed(now, before, Statistics()))
    return conversation


async def test_saves_that_come_at_once_store_each_message_once(
    recorder: Recorder, store: ChatStore
) -> None:
    conversation = Conversation()
    for number in range(20):
        conversation.ask(f"{number:02}")
    await asyncio.gather(*(recorder.save(conversation, "tiny") for _ in range(4)))
    assert texts(store) == [f"{number:02}" for number in range(20)]


async def test_a_replaced_version_is_stored_once_over_several_saves(
    recorder: Recorder, store: ChatStore
) -> None:
    conversation = replaced_once()
    for _ in range(3):
        await recorder.save(conversation, "tiny")
        conversation.entries[-1].text += "!"
    assert texts(store) == ["before", "now!!", "question"]


@pytest.mark.parametrize("failing", range(1, 7))
async def test_whichever_write_fails_the_next_save_stores_each_thing_once(
    recorder: Recorder, store: ChatStore, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    conversation = replaced_once()
    writes = 0

    def counted(write: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes == failing:
                raise SpecchatError("the disk is full")
            return write(*args, **kwargs)

        return call

    for name in ("create_chat", "add_message", "append_to_message", "finish_message", "set_head"):
        monkeypatch.setattr(store, name, counted(getattr(store, name)))
    with suppress(SpecchatError):
        await recorder.save(conversation, "tiny")
    await recorder.save(conversation, "tiny")
    assert texts(store) == ["before", "now", "question"]


async def test_a_replaced_version_keeps_its_tokens(recorder: Recorder, store: ChatStore) -> None:
    conversation = replaced_once()
    await recorder.save(conversation, "tiny")
    tree = store.tree(store.chats()[0].id)
    assert {m.text: m.tokens for m in tree if m.role == "assistant"} == {
        "now": (2,),
        "before": (1,),
    }
