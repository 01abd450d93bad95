"""What a model thinks: open while it does, folded once it answers, kept with the chat."""

from __future__ import annotations

from dataclasses import replace

from specchat.tui.widgets.status_line import StatusLine
from specengine.chat.chat_template import Turn
from specengine.core.events import Chunk, Finished
from specengine.core.statistics import Statistics
from support.chat_app import StartChat
from support.fake_runtime import Script

THINKING = Statistics(ttft_s=1.0, decode_s=3.2, reasoning_tokens=2)
WRITING = replace(THINKING, answer_s=5.4, decode_s=4.5)
THOUGHT = (Chunk("", (0,), THINKING, reasoning="We"), Chunk("", (1,), THINKING, reasoning=" add."))
ANSWER = (
    Chunk("It is 4.", (2,), WRITING),
    Finished("stop", "It is 4.", (0, 1, 2), WRITING, reasoning="We add.", answer_at=2),
)
CUT = Finished("length", "", (0, 1), THINKING, reasoning="We add.", answer_at=2)


async def test_a_thought_is_seen_while_it_lasts_and_folds_when_the_answer_begins(
    start_chat: StartChat,
) -> None:
    async with start_chat(Script(events=(*THOUGHT, ANSWER[1]), held=True)) as chat:
        await chat.say("2 + 2?")
        await chat.until(lambda: chat.messages[1] == "Thinking… 3 s, 2 tokens\nWe add.\n")
        assert "thinking" in chat.screen.query_one(StatusLine).activity.plain
        chat.runtime.release.set()
        await chat.until(lambda: chat.messages[1] == "Thought for 4 s · F2\n\nIt is 4.")
        await chat.pilot.press("f2")
        assert chat.messages[1] == "Thought for 4 s · F2\nWe add.\n\nIt is 4."
        await chat.pilot.press("f2")
        assert chat.messages[1] == "Thought for 4 s · F2\n\nIt is 4."


async def test_a_thought_is_kept_and_given_to_the_template_again(start_chat: StartChat) -> None:
    async with start_chat(Script(events=(*THOUGHT, *ANSWER))) as chat:
        await chat.say("2 + 2?")
        await chat.until(lambda: ("assistant", "It is 4.", "done") in chat.stored)
    async with start_chat(Script(["6"])) as chat:
        await chat.until(lambda: len(chat.messages) == 2)
        assert chat.messages[1] == "Thought for 4 s · F2\n\nIt is 4."
        await chat.say("And 3 + 3?")
        await chat.until(lambda: bool(chat.runtime.asked))
        assert chat.runtime.asked[0][2] == Turn("assistant", "It is 4.", (0, 1, 2), "We add.", 2)


async def test_an_answer_that_got_no_further_than_its_thought_stays(start_chat: StartChat) -> None:
    async with start_chat(Script(events=(*THOUGHT, CUT))) as chat:
        await chat.say("2 + 2?")
        await chat.until(lambda: ("assistant", "", "length") in chat.stored)
        assert chat.messages[1] == "Thought for 3 s · F2\n\ncut off at the length limit"
