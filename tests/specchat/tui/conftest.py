"""A chat screen over a scripted runtime and a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.runtime import Runtime
from specchat.chats import ChatStore
from specchat.models.registry import Profile, Registry, load_registry
from specchat.tui.app import SpecchatApp
from specchat.tui.services import Services
from support.chat_app import Chat, StartChat
from support.fake_runtime import FakeRuntime, Script


@pytest.fixture
def registry() -> Registry:
    return load_registry()


@pytest.fixture
def services(registry: Registry, tmp_path: Path) -> Services:
    """Of a person who chose `tiny` earlier."""
    return Services(
        runtime=cast(Runtime, FakeRuntime()),
        registry=registry,
        open_store=lambda: ChatStore(tmp_path / "chats.db"),
        options=lambda profile: AnswerOptions(),
        profile=registry.profile("tiny"),
    )


@pytest.fixture
def start_chat(services: Services, tmp_path: Path) -> StartChat:
    @asynccontextmanager
    async def start(
        *scripts: Script,
        runtime: FakeRuntime | None = None,
        size: tuple[int, int] = (80, 30),
        **changes: Any,
    ) -> AsyncIterator[Chat]:
        runtime = runtime or FakeRuntime(scripts=list(scripts))
        remembered: list[Profile] = []
        changes.setdefault("remember", remembered.append)
        app = SpecchatApp(replace(services, runtime=cast(Runtime, runtime), **changes))
        async with app.run_test(size=size) as pilot:
            chat = Chat(pilot, ChatStore(tmp_path / "chats.db"), runtime, remembered)
            await chat.settle()
            yield chat

    return start
