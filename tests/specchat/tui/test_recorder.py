"""What the store gets of the chat on the screen: each thing once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from specchat.chats import ChatStore
from specchat.errors import SpecchatError
from specchat.tui.conversation import Conversation
from specchat.tui.open_chat import OpenChat
from specchat.tui.services import Services
from specengine.core.events import Reviewed, Version
from specengine.core.statistics import Statistics


@pytest.fixture
async def chat(services: Services) -> OpenChat:
    chat = OpenChat(services, lambda text, kind: None)
    await chat.open_store()
    return chat


@pytest.fixture
def store(chat: OpenChat) -> ChatStore:
    assert chat.store is not None
    return chat.store


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
    chat: OpenChat, store: ChatStore
) -> None:
    conversation = chat.conversation
    for number in range(20):
        conversation.ask(f"{number:02}")
    await asyncio.gather(*(chat.save() for _ in range(4)))
    assert texts(store) == [f"{number:02}" for number in range(20)]


async def test_a_replaced_version_is_stored_once_over_several_saves(
    chat: OpenChat, store: ChatStore
) -> None:
    conversation = chat.conversation = replaced_once()
    for _ in range(3):
        await chat.save()
        conversation.entries[-1].text += "!"
    assert texts(store) == ["before", "now!!", "question"]


@pytest.mark.parametrize("failing", range(1, 7))
async def test_whichever_write_fails_the_next_save_stores_each_thing_once(
    chat: OpenChat, store: ChatStore, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    chat.conversation = replaced_once()
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
    await chat.save()
    await chat.save()
    assert texts(store) == ["before", "now", "question"]


async def test_a_replaced_version_keeps_its_tokens(chat: OpenChat, store: ChatStore) -> None:
    chat.conversation = replaced_once()
    await chat.save()
    tree = store.tree(store.chats()[0].id)
    assert {m.text: m.tokens for m in tree if m.role == "assistant"} == {
        "now": (2,),
        "before": (1,),
    }
