"""Other versions of a message: answers that were made again, and questions that were edited."""

from __future__ import annotations

from specchat.tui.widgets.message import MessageView
from support.chat_app import Chat, StartChat
from support.fake_runtime import Script


def places(chat: Chat) -> list[str]:
    views = chat.screen.query(MessageView)
    return [str(view.border_subtitle) for view in views if view.has_class("-versions")]


async def test_keys_go_round_the_answers_to_a_question(start_chat: StartChat) -> None:
    async with start_chat(Script(["One."]), Script(["Two."])) as chat:
        await chat.say("Count")
        assert places(chat) == []
        await chat.pilot.press("ctrl+r")
        await chat.until(lambda: places(chat) == ["2/2"])
        await chat.pilot.press("alt+left")
        await chat.until(lambda: chat.messages == ["Count", "One."])
        assert places(chat) == ["1/2"]
        await chat.pilot.press("alt+left")
        await chat.until(lambda: chat.messages == ["Count", "Two."])
        assert places(chat) == ["2/2"]
        await chat.pilot.press("alt+left")
        await chat.until(lambda: chat.messages == ["Count", "One."])
        await chat.say("Go on")
        assert [turn.text for turn in chat.runtime.asked[-1]] == ["", "Count", "One.", "Go on"]
        await chat.until(lambda: len(chat.stored) == 4 and chat.stored[3][2] == "done")
        assert [text for _, text, _ in chat.stored][:3] == ["Count", "One.", "Go on"]


async def test_an_edited_question_brings_back_what_followed_it(start_chat: StartChat) -> None:
    async with start_chat(Script(["One."]), Script(["Eins."])) as chat:
        await chat.say("Count")
        await chat.pilot.press("up")
        await chat.say("Count in German")
        await chat.until(lambda: places(chat) == ["2/2"])
        await chat.pilot.press("alt+right")
        await chat.until(lambda: chat.messages == ["Count", "One."])
    async with start_chat() as chat:
        await chat.until(lambda: places(chat) == ["1/2"])
        assert chat.messages == ["Count", "One."]


async def test_where_there_is_one_version_the_key_says_so(start_chat: StartChat) -> None:
    async with start_chat(Script(["One."])) as chat:
        await chat.say("Count")
        await chat.press("alt+left")
        assert chat.messages == ["Count", "One."]
        assert [notice.message[:35] for notice in chat.app._notifications] == [
            "No message here has another version"
        ]


async def test_while_an_answer_streams_its_versions_wait_and_that_is_told(
    start_chat: StartChat,
) -> None:
    async with start_chat(Script(["answer", "!"], held=True)) as chat:
        await chat.say("question")
        await chat.pilot.press("ctrl+g")
        await chat.until(lambda: bool(chat.app._notifications))
        [notice] = chat.app._notifications
        assert "once this answer has ended" in notice.message
        chat.runtime.release.set()
