"""What the engine does while nobody waits: it reads ahead, and keeps the chat's state."""

from __future__ import annotations

import pytest

from specchat.tui import background
from specengine.chat.chat_template import Turn
from support.chat_app import StartChat
from support.fake_runtime import FakeRuntime, Script

SYSTEM = Turn("system", "")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_PAUSE_S", 0.02)
    monkeypatch.setattr(background, "_REST_S", 3600.0)


async def test_the_system_message_is_read_once_the_model_is_there(start_chat: StartChat) -> None:
    runtime = FakeRuntime(holds_load=True)
    async with start_chat(runtime=runtime) as chat:
        await chat.pilot.pause(0.1)
        assert runtime.read == []
        runtime.load_gate.set()
        await chat.until(lambda: runtime.read != [])
        assert runtime.read == [([SYSTEM], "")]


async def test_what_is_typed_is_read_at_a_pause_after_what_was_said(start_chat: StartChat) -> None:
    async with start_chat(Script(["Hi."])) as chat:
        await chat.say("Hello")
        said = [SYSTEM, Turn("user", "Hello"), Turn("assistant", "Hi.", (0,))]
        await chat.until(lambda: chat.runtime.read[-1:] == [(said, "")])
        before = chat.runtime.stopped_reading
        await chat.pilot.press("W", "h", "y")
        assert chat.runtime.stopped_reading >= before + 3
        await chat.until(lambda: chat.runtime.read[-1:] == [(said, "Why")])


async def test_nothing_is_read_while_an_answer_is_written(start_chat: StartChat) -> None:
    async with start_chat(Script(["One", " two"], held=True)) as chat:
        await chat.say("Count")
        await chat.until(lambda: chat.runtime.running == 1)
        n = len(chat.runtime.read)
        chat.prompt.text = "And then?"
        await chat.pilot.pause(0.1)
        assert len(chat.runtime.read) == n
        chat.runtime.release.set()
        await chat.until(lambda: len(chat.runtime.read) > n)
        assert chat.runtime.read[-1][1] == "And then?"


async def test_nothing_is_read_while_an_earlier_question_is_edited(start_chat: StartChat) -> None:
    async with start_chat(Script(["Hi."])) as chat:
        await chat.say("Hello")
        await chat.until(lambda: chat.runtime.read[-1][0][-1].role == "assistant")
        n = len(chat.runtime.read)
        await chat.pilot.press("up")
        await chat.pilot.pause(0.1)
        assert len(chat.runtime.read) == n


async def test_a_chat_is_kept_before_another_takes_its_place_and_at_the_end(
    start_chat: StartChat,
) -> None:
    async with start_chat(Script(["Hi."])) as chat:
        await chat.say("Hello")
        await chat.pilot.press("ctrl+n")
        await chat.until(lambda: chat.runtime.kept != [])
        assert [(chat_id, turns[-1].text) for chat_id, turns in chat.runtime.kept] == [(1, "Hi.")]
        await chat.say("Again")
        await chat.pilot.press("ctrl+q")
        await chat.until(lambda: chat.runtime.closed)
        assert chat.runtime.kept[-1][0] == 2


async def test_a_chat_is_kept_when_nothing_happens_for_a_while(
    start_chat: StartChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "_REST_S", 0.05)
    async with start_chat(Script(["Hi."])) as chat:
        await chat.say("Hello")
        await chat.until(lambda: len(chat.stored) == 2)
        await chat.pilot.press("x")
        await chat.until(lambda: bool(chat.runtime.kept) and chat.runtime.kept[-1][0] == 1)
        assert chat.runtime.kept[-1][1][-1].text == "Hi."
