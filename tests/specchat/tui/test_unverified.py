"""Words that the target has not verified: marked while they stand so, resolved when it is back."""

from __future__ import annotations

import pytest
from textual.strip import Strip

from specchat.tui import verifier
from specchat.tui.widgets.message import MessageView
from specengine.core.events import Chunk, Finished, Progress, Reviewed, Unverified, Version
from specengine.core.statistics import Statistics
from support.chat_app import Chat, StartChat
from support.fake_runtime import FakeRuntime, Script

STATS = Statistics()
MARK = Unverified(2, 8, "draft-0.5b", seed=7)
SHOWN = Version("The fox sleeps.", (0, 1, 2, 3), MARK)
LABEL = "not verified from here on · draft-0.5b wrote it"
MARKED = f"The fox\n\n{LABEL}\nsleeps."

ALONE = (
    Chunk("The ", (0,), STATS),
    Chunk("fox ", (1,), STATS),
    Progress("wait", 0, 0, "http://far: no connection"),
    Chunk("sleeps", (2,), STATS, MARK),
    Chunk(".", (3,), STATS, MARK),
)
UNVERIFIED = Script(
    events=(*ALONE, Finished("stop", SHOWN.text, SHOWN.tokens, STATS, unverified=MARK))
)
SAME = Version("The fox sleeps.", (0, 1, 2, 3), None)
OTHER = Version("The fox runs.", (0, 1, 4, 3), None)


def verified(now: Version, replaced: Version | None = None) -> Script:
    finished = Finished(
        "stop", now.text, now.tokens, STATS, replaced=(replaced,) if replaced else ()
    )
    return Script(events=(Reviewed(now, replaced, STATS), finished))


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier, "EVERY_S", 0.05)


def row_of(chat: Chat, text: str) -> Strip:
    view = chat.screen.query(MessageView).last()
    return next(
        view.render_line(y) for y in range(view.size.height) if text in view.render_line(y).text
    )


async def test_unverified_words_are_dim_and_named_and_stored_so(start_chat: StartChat) -> None:
    async with start_chat(UNVERIFIED) as chat:
        await chat.say("What does it do?")
        await chat.until(lambda: len(chat.stored) == 2 and chat.stored[1][2] == "done")
        assert chat.messages[1] == MARKED
        plain = next(s for s in row_of(chat, "The fox") if "The fox" in s.text)
        words = next(s for s in row_of(chat, "sleeps") if "sleeps" in s.text)
        assert plain.style is not None
        assert words.style is not None
        assert (plain.style.dim, words.style.dim) == (None, True)
        message = chat.store.messages(chat.store.chats()[0].id)[1]
        assert (message.text, message.tokens) == (SHOWN.text, SHOWN.tokens)
        assert message.unverified == MARK


async def test_the_status_line_tells_that_the_draft_model_writes(start_chat: StartChat) -> None:
    async with start_chat(Script(events=UNVERIFIED.events, held=True)) as chat:
        await chat.say("What does it do?")
        assert "no target: the draft model writes" in chat.status
        chat.runtime.release.set()
        await chat.settle()
        assert "draft model" not in chat.status


async def test_a_chat_of_earlier_is_verified_when_the_target_is_back(start_chat: StartChat) -> None:
    async with start_chat(UNVERIFIED) as chat:
        await chat.say("What does it do?")
        await chat.until(lambda: len(chat.stored) == 2 and chat.stored[1][2] == "done")
    runtime = FakeRuntime([verified(SAME)])
    async with start_chat(runtime=runtime) as chat:
        await chat.until(lambda: chat.messages[1:] == [MARKED])
        assert runtime.asked == []
        runtime.within_reach = True
        await chat.until(lambda: chat.messages[1:] == ["The fox sleeps."])
        begun = runtime.options[0].begun
        assert begun is not None
        assert (begun.tokens, begun.unverified) == (SHOWN.tokens, MARK)
        assert [turn.text for turn in runtime.asked[0]][-1] == "What does it do?"
        message = chat.store.messages(chat.store.chats()[0].id)[1]
        await chat.until(
            lambda: chat.store.messages(message.chat_id)[1].unverified is None  # saved
        )
        assert len(runtime.asked) == 1


async def test_both_versions_are_kept_where_the_target_goes_on_differently(
    start_chat: StartChat,
) -> None:
    events = (*ALONE, *verified(OTHER, SHOWN).events)
    async with start_chat(Script(events=events)) as chat:
        await chat.say("What does it do?")
        await chat.until(lambda: len(chat.stored) == 2 and chat.stored[1][2] == "done")
        assert chat.messages[1] == "The fox runs."
        chat_id = chat.store.chats()[0].id
        await chat.until(lambda: len(chat.store.tree(chat_id)) == 3)
        other = chat.store.tree(chat_id)[2]
        assert (other.text, other.tokens, other.unverified) == (SHOWN.text, SHOWN.tokens, MARK)
        await chat.pilot.press("ctrl+g")
        await chat.until(lambda: chat.messages[1:] == [MARKED])
        await chat.pilot.press("ctrl+g")
        await chat.until(lambda: chat.messages[1:] == ["The fox runs."])
        assert [text for _, text, _ in chat.stored] == ["What does it do?", "The fox runs."]


async def test_a_question_does_not_wait_for_the_verification(start_chat: StartChat) -> None:
    slow = Script(events=verified(SAME).events, held=True)
    async with start_chat(UNVERIFIED, slow, Script(["Yes."])) as chat:
        await chat.say("What does it do?")
        chat.runtime.within_reach = True
        await chat.until(lambda: len(chat.runtime.asked) == 2)
        await chat.say("Still?")
        await chat.until(lambda: chat.messages[-1] == "Yes.")


async def test_a_failed_verification_changes_nothing_and_is_no_news(
    start_chat: StartChat,
) -> None:
    failed = Finished("error", SHOWN.text, SHOWN.tokens, STATS, "gone again", unverified=MARK)
    async with start_chat(UNVERIFIED, Script(events=(failed,)), verified(SAME)) as chat:
        await chat.say("What does it do?")
        notes = chat.notes
        chat.runtime.within_reach = True
        await chat.until(lambda: len(chat.runtime.asked) == 3)
        await chat.until(lambda: chat.messages[1:] == ["The fox sleeps."])
        assert chat.notes == notes


async def test_what_was_stopped_is_verified_and_not_gone_on_with(start_chat: StartChat) -> None:
    stopped = Finished("cancelled", SHOWN.text, SHOWN.tokens, STATS, unverified=MARK)
    async with start_chat(Script(events=(*ALONE, stopped)), verified(SAME)) as chat:
        await chat.say("What does it do?")
        chat.runtime.within_reach = True
        await chat.until(lambda: len(chat.runtime.options) == 2)
        assert chat.runtime.options[1].max_tokens == len(SHOWN.tokens)


@pytest.mark.parametrize(
    ("script", "told"),
    [(Script(["done"]), "nothing to verify"), (UNVERIFIED, "cannot be reached")],
    ids=["verified already", "target away"],
)
async def test_verify_says_why_it_does_nothing(
    start_chat: StartChat, script: Script, told: str
) -> None:
    async with start_chat(script) as chat:
        await chat.say("question")
        await chat.screen.action_verify_now()
        await chat.settle()
        assert told in " ".join(notice.message for notice in chat.app._notifications)
