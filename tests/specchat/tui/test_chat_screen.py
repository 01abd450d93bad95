"""The chat as a person at the keyboard meets it."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.events import Key, Paste
from textual.timer import Timer
from textual.widgets import TextArea

from specchat.chats import ChatStore
from specchat.tui.screens.chat import ChatScreen
from specchat.tui.widgets.message import MessageView
from specengine.chat.chat_template import Turn
from support.chat_app import Chat, StartChat
from support.fake_runtime import FakeRuntime, Script


async def test_an_answer_is_shown_and_kept(start_chat: StartChat) -> None:
    async with start_chat(Script(["It is ", "**Paris**", "."])) as chat:
        await chat.say("What is the capital of France?")
        assert chat.messages == ["What is the capital of France?", "It is Paris."]
        await chat.until(lambda: len(chat.stored) == 2)
        assert chat.stored == [
            ("user", "What is the capital of France?", "done"),
            ("assistant", "It is **Paris**.", "done"),
        ]


async def test_the_last_chat_is_there_at_the_next_start(start_chat: StartChat) -> None:
    async with start_chat(Script(["Paris."])) as chat:
        await chat.say("Capital of France?")
        await chat.until(lambda: chat.messages == ["Capital of France?", "Paris."])
        await chat.leave()
        assert chat.runtime.closed
    async with start_chat(Script(["Berlin."])) as chat:
        await chat.until(lambda: len(chat.messages) == 2)
        assert chat.messages == ["Capital of France?", "Paris."]
        await chat.say("And of Germany?")
        await chat.until(lambda: bool(chat.runtime.asked))
        assert chat.runtime.asked[0][1:3] == [
            Turn("user", "Capital of France?"),
            Turn("assistant", "Paris.", (0,)),
        ]


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_a_stopped_answer_keeps_what_came(start_chat: StartChat, key: str) -> None:
    async with start_chat(Script(["Half an ", "answer"], held=True)) as chat:
        await chat.say("question")
        assert chat.messages[1] == "Half an"
        await chat.press(key)
        assert chat.messages[1] == "Half an\n\nstopped here"
        await chat.until(lambda: ("assistant", "Half an ", "stopped") in chat.stored)
        assert chat.app.is_running


async def test_an_answer_stopped_before_its_first_word_leaves_nothing(
    start_chat: StartChat,
) -> None:
    async with start_chat(Script(["answer"], held=True)) as chat:
        await chat.say("question")
        await chat.press("escape")
        assert chat.messages == ["question"]
        await chat.press("ctrl+r")
        assert chat.messages == ["question", "You said: question"]


def leave_by_signal(chat: Chat) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def leave_by_key(chat: Chat) -> None:
    chat.app.simulate_key("ctrl+q")


@pytest.mark.parametrize(
    "leave",
    [
        leave_by_key,
        pytest.param(
            leave_by_signal,
            marks=pytest.mark.skipif(
                sys.platform == "win32", reason="that ends a process at once there"
            ),
        ),
    ],
)
async def test_leaving_saves_what_streams_and_what_waits_for_its_turn(
    start_chat: StartChat, leave: Callable[[Chat], None]
) -> None:
    async with start_chat(Script(["so far", " and on"], held=True)) as chat:
        await chat.say("first")
        await chat.say("second")
        leave(chat)
        await chat.until(lambda: not chat.app.is_running)
        assert chat.stored[1:] == [("assistant", "so far", "stopped"), ("user", "second", "done")]
        assert chat.app.return_code == 0


async def test_leaving_before_the_store_is_open_saves_what_was_said(
    start_chat: StartChat, tmp_path: Path
) -> None:
    opened = threading.Event()

    def slow() -> ChatStore:
        opened.wait()
        return ChatStore(tmp_path / "chats.db")

    async with start_chat(Script(["Hello."]), open_store=slow) as chat:
        await chat.say("Hi")
        await chat.until(lambda: chat.messages == ["Hi", "Hello."])
        await chat.press("ctrl+q")
        opened.set()
        await chat.until(lambda: not chat.app.is_running)
        assert [text for _, text, _ in chat.stored] == ["Hi", "Hello."]


async def test_no_timer_draws_an_answer_that_has_ended(
    start_chat: StartChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing: set[Timer] = set()
    start, stop = ChatScreen.set_interval, Timer.stop

    def started(self: ChatScreen, interval: float, callback: Any = None, **kwargs: Any) -> Timer:
        timer = start(self, interval, callback, **kwargs)
        if getattr(callback, "__name__", "") == "show_new":
            drawing.add(timer)
        return timer

    def stopped(self: Timer) -> None:
        drawing.discard(self)
        stop(self)

    monkeypatch.setattr(ChatScreen, "set_interval", started)
    monkeypatch.setattr(Timer, "stop", stopped)
    async with start_chat(Script(["One", "."], held=True)) as chat:
        await chat.say("first")
        await chat.until(lambda: len(drawing) == 1)
        chat.runtime.release.set()
        await chat.until(lambda: chat.messages == ["first", "One."])
        await chat.until(lambda: not drawing)


async def test_who_types_before_the_last_chat_is_open_gets_a_new_one(
    start_chat: StartChat, tmp_path: Path
) -> None:
    store = ChatStore(tmp_path / "chats.db")
    store.add_message(store.create_chat("tiny").id, "user", "an earlier question")
    opened = threading.Event()

    def slow() -> ChatStore:
        opened.wait()
        return store

    async with start_chat(Script(["Hello."]), open_store=slow) as chat:
        await chat.pilot.press("ctrl+n")
        await chat.say("Hi")
        opened.set()
        await chat.until(lambda: len(store.chats()) == 2)
        await chat.until(lambda: len(chat.stored) == 2)
        assert chat.messages == ["Hi", "Hello."]


async def test_ctrl_d_leaves_an_empty_prompt_and_deletes_in_a_full_one(
    start_chat: StartChat,
) -> None:
    async with start_chat() as chat:
        await chat.pilot.press("a", "b", "home", "ctrl+d")
        assert chat.prompt.text == "b"
        await chat.pilot.press("ctrl+d", "ctrl+d")
        await chat.until(lambda: not chat.app.is_running)


async def test_ctrl_c_at_rest_leaves_only_when_pressed_twice(start_chat: StartChat) -> None:
    async with start_chat() as chat:
        await chat.press("ctrl+c")
        assert chat.app.is_running
        await chat.pilot.press("ctrl+c")
        await chat.until(lambda: not chat.app.is_running)


async def test_two_answers_never_run_at_once(start_chat: StartChat) -> None:
    async with start_chat(Script(["one", "!"], held=True), Script(["two"])) as chat:
        await chat.say("first")
        await chat.say("second")
        await chat.press("ctrl+r")
        assert chat.messages == ["first", "one"]
        chat.runtime.release.set()
        await chat.settle()
        assert chat.messages == ["first", "one!", "second", "two"]
        assert chat.runtime.most_running == 1


async def test_stopping_gives_back_what_was_typed_meanwhile(start_chat: StartChat) -> None:
    async with start_chat(Script(["one", "!"], held=True)) as chat:
        await chat.say("first")
        await chat.say("second")
        await chat.press("x", "escape")
        assert chat.prompt.text == "second\n\nx"
        assert chat.messages == ["first", "one\n\nstopped here"]


async def test_what_is_typed_while_the_model_loads_is_sent_when_it_is_ready(
    start_chat: StartChat,
) -> None:
    runtime = FakeRuntime([Script(["Hello."])], holds_load=True)
    async with start_chat(runtime=runtime) as chat:
        assert "42%" in chat.status
        await chat.say("Hi")
        assert chat.messages == ["Hi"]
        runtime.load_gate.set()
        await chat.settle()
        assert chat.messages == ["Hi", "Hello."]


@pytest.mark.parametrize(
    ("width", "figures"),
    [
        (100, "22.5 tokens/s · 75% accepted · 2.2 tokens/pass · context 30 of 4096"),
        (40, "22.5 tokens/s"),
    ],
)
async def test_the_status_line_shows_the_figures_that_fit(
    start_chat: StartChat, width: int, figures: str
) -> None:
    async with start_chat(Script(["a "] * 10), size=(width, 20)) as chat:
        await chat.say("go")
        assert re.fullmatch(f"● tiny +{re.escape(figures)}", chat.status)


@pytest.mark.parametrize("key", ["shift+enter", "ctrl+j"])
async def test_a_message_can_have_lines(start_chat: StartChat, key: str) -> None:
    async with start_chat() as chat:
        await chat.press("a", key, "b", "enter")
        assert chat.messages[0] == "a\nb"


async def test_keys_take_effect_in_the_order_of_typing(start_chat: StartChat) -> None:
    """However fast they come, as from a terminal that pastes without saying so."""
    async with start_chat() as chat:
        for key in ("a", "b", "ctrl+j", "c", "enter", "d"):
            chat.app.post_message(Key(key, key if len(key) == 1 else None))
        await chat.settle()
        assert chat.messages[0] == "ab\nc"
        assert chat.prompt.text == "d"


@pytest.mark.parametrize(
    ("pasted", "text"),
    [("one\rtwo\r\nthree\n", "one\ntwo\nthree\n"), ("a\x1b[31mb", "a␛[31mb")],
    ids=["line ends as terminals send them", "escape sequences"],
)
async def test_a_paste_is_lines_of_visible_text(
    start_chat: StartChat, pasted: str, text: str
) -> None:
    async with start_chat() as chat:
        chat.app.post_message(Paste(pasted))
        await chat.settle()
        assert chat.prompt.text == text


async def test_a_long_paste_is_a_mark_in_the_prompt_and_sent_whole(start_chat: StartChat) -> None:
    pasted = "line \\1 of a book\n" * 300_000
    async with start_chat(Script(["ok"])) as chat:
        await chat.pilot.press("a")
        chat.app.post_message(Paste(pasted))
        await chat.settle()
        await chat.pilot.press("b")
        mark = "⟦paste 1: 5,400,000 characters, 300,001 lines⟧"
        assert chat.prompt.text == f"a{mark}b"
        await chat.press("enter")
        assert chat.runtime.asked[0][-1].text == f"a{pasted}b"
        assert chat.messages[0].endswith("… and 5,300,002 more characters")


async def test_blank_messages_are_not_sent(start_chat: StartChat) -> None:
    async with start_chat() as chat:
        await chat.say("  \n ")
        assert chat.messages == []
        assert chat.runtime.asked == []


async def test_another_answer_replaces_the_last_one(start_chat: StartChat) -> None:
    async with start_chat(Script(["one"]), Script(["two"])) as chat:
        await chat.say("question")
        await chat.press("ctrl+r")
        assert chat.messages == ["question", "two"]
        assert [turn.text for turn in chat.runtime.asked[1]] == ["", "question"]
        await chat.until(lambda: ("assistant", "two", "done") in chat.stored)
        assert [text for _, text, _ in chat.stored] == ["question", "two"]


async def test_another_answer_that_never_begins_leaves_the_last_one(
    start_chat: StartChat,
) -> None:
    async with start_chat(Script(["one"]), Script(["two"], held=True)) as chat:
        await chat.say("question")
        await chat.press("ctrl+r", "escape")
        assert chat.messages == ["question", "one"]


@pytest.mark.parametrize("earlier", [[], ["first", "1"]], ids=["the first", "a later one"])
async def test_the_last_message_can_be_edited(start_chat: StartChat, earlier: list[str]) -> None:
    async with start_chat(Script(["1"]), Script(["2"]), Script(["3"])) as chat:
        for text in [*earlier[:1], "secnod"]:
            await chat.say(text)
        await chat.until(lambda: len(chat.stored) == len(earlier) + 2)
        await chat.pilot.press("up")
        assert chat.prompt.text == "secnod"
        await chat.say("second")
        branch = [*earlier, "second", "3" if earlier else "2"]
        assert chat.messages == branch
        await chat.until(lambda: [text for _, text, _ in chat.stored] == branch)


async def test_a_new_chat_begins_without_the_old_one(start_chat: StartChat) -> None:
    async with start_chat() as chat:
        await chat.say("first chat")
        await chat.press("ctrl+n")
        assert chat.messages == []
        await chat.say("second chat")
        assert [turn.text for turn in chat.runtime.asked[-1]] == ["", "second chat"]
        await chat.until(lambda: len(chat.store.chats()) == 2)
        assert [c.title for c in chat.store.chats()] == ["second chat", "first chat"]


async def test_a_new_chat_ends_the_answer_of_the_old_one(start_chat: StartChat) -> None:
    async with start_chat(Script(["half", " more"], held=True)) as chat:
        await chat.say("question")
        await chat.pilot.press("ctrl+n")
        await chat.until(lambda: chat.messages == [])
        assert chat.stored[1] == ("assistant", "half", "stopped")


async def test_the_prompt_keeps_the_focus(start_chat: StartChat) -> None:
    async with start_chat() as chat:
        for keys in (["ctrl+n"], ["ctrl+t", "escape"], ["ctrl+o", "escape"], ["pageup"]):
            await chat.press(*keys)
            assert isinstance(chat.app.focused, TextArea)


async def test_the_last_answer_is_copied_and_saved(
    start_chat: StartChat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with start_chat(Script(["*Paris*"])) as chat:
        await chat.say("question")
        chat.screen.action_copy_answer()
        assert chat.app.clipboard == "*Paris*"
        chat.screen.action_save_answer()
        await chat.until(lambda: bool(list(Path().glob("answer-*.md"))))
        assert next(Path().glob("answer-*.md")).read_text() == "*Paris*\n"


async def test_what_stands_in_the_prompt_survives_a_change_of_chat(start_chat: StartChat) -> None:
    async with start_chat() as chat:
        await chat.say("question")
        chat.prompt.text = "not sent yet"
        await chat.pilot.press("ctrl+n")
        await chat.until(lambda: chat.messages == [])
        assert chat.prompt.text == "not sent yet"


async def test_a_click_on_a_message_leaves_the_prompt_ready_to_type(start_chat: StartChat) -> None:
    async with start_chat() as chat:
        await chat.say("question")
        await chat.pilot.click(MessageView)
        await chat.pilot.press("tab", "a")
        assert chat.prompt.text == "a"


async def test_a_new_chat_does_not_stop_the_loading(start_chat: StartChat) -> None:
    runtime = FakeRuntime(holds_load=True)
    async with start_chat(runtime=runtime) as chat:
        await chat.press("ctrl+n")
        runtime.load_gate.set()
        await chat.until(lambda: chat.status.startswith("● tiny"))


async def test_loading_can_be_stopped(start_chat: StartChat) -> None:
    runtime = FakeRuntime(holds_load=True)
    async with start_chat(runtime=runtime) as chat:
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.status.startswith("○ no model"))
        assert chat.notes == []


async def test_a_message_that_waits_is_answered_by_the_newly_chosen_model(
    start_chat: StartChat,
) -> None:
    async with start_chat(Script(["half", " more"], held=True), Script(["two"])) as chat:
        await chat.say("first")
        await chat.say("second")
        await chat.pilot.press("ctrl+t", "down", "enter")
        await chat.until(lambda: len(chat.messages) == 4)
        await chat.settle()
        assert chat.messages[2:] == ["second", "two"]
        assert chat.runtime.loaded == ["tiny", "laptop"]
        # Only `tiny` comes with a system message, and half an answer is not the new model's.
        assert chat.runtime.asked[1] == [
            Turn("user", "first"),
            Turn("assistant", "half"),
            Turn("user", "second"),
        ]
        assert chat.runtime.most_running == 1
