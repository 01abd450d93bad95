"""The chat with a real model and the real store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.runtime import Runtime
from specchat.chats import ChatStore
from specchat.models.registry import Registry
from specchat.tui.app import SpecchatApp
from specchat.tui.services import Services
from specengine.sampling import SamplingParams
from support.chat_app import Chat
from support.smollm import UNENDING


async def test_two_turns_and_another_start(
    tiny_model: Path, registry: Registry, services: Services, tmp_path: Path
) -> None:
    profile = registry.profile("tiny").model_copy(update={"target": str(tiny_model), "n_ctx": 512})
    sampling = SamplingParams(temperature=0, logit_bias=UNENDING)
    greedy = AnswerOptions(sampling=sampling, max_tokens=24)

    def app() -> SpecchatApp:
        runtime = Runtime(registry, offline=True)
        return SpecchatApp(
            replace(services, runtime=runtime, profile=profile, options=lambda _: greedy)
        )

    first = app()
    async with first.run_test() as pilot:
        chat = Chat(pilot, ChatStore(tmp_path / "chats.db"))
        await chat.until(lambda: chat.status.startswith("● tiny"))
        await chat.say("What is the capital of France?")
        await chat.until(lambda: len(chat.stored) == 2 and chat.stored[1][2] == "length")
        assert chat.messages[1].strip()
        assert "tokens/s" in chat.status
        await pilot.press("ctrl+q")
        await chat.until(lambda: not first.is_running)
    second = app()
    async with second.run_test() as pilot:
        chat = Chat(pilot, ChatStore(tmp_path / "chats.db"))
        await chat.until(lambda: chat.messages[:1] == ["What is the capital of France?"])
        await chat.say("Are you sure?")
        await chat.until(lambda: len(chat.stored) == 4 and chat.stored[3][2] != "streaming")
        assert chat.notes == []
        await pilot.press("ctrl+q")
        await chat.until(lambda: not second.is_running)
