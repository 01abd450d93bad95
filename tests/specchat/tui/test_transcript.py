"""Long chats and long answers: all of it can be read, and little of it is work."""

from __future__ import annotations

from pathlib import Path

from textual.geometry import Offset
from textual.selection import SELECT_ALL, Selection

from specchat.chats import ChatStore
from specchat.tui.conversation import Entry
from specchat.tui.widgets.message import MessageView
from specchat.tui.widgets.transcript import PAGE, Transcript
from support.chat_app import Chat, StartChat
from support.fake_runtime import Script


def transcript(chat: Chat) -> Transcript:
    return chat.screen.query_one(Transcript)


def at_end(chat: Chat) -> bool:
    view = transcript(chat)
    return view.scroll_y == view.max_scroll_y


def fill(path: Path, messages: int) -> None:
    store = ChatStore(path)
    chat = store.create_chat("tiny")
    for number in range(messages):
        store.add_message(chat.id, "assistant" if number % 2 else "user", f"message {number}")
    store.close()


async def test_old_messages_become_widgets_when_the_person_scrolls_to_them(
    start_chat: StartChat, tmp_path: Path
) -> None:
    fill(tmp_path / "chats.db", 100)
    async with start_chat() as chat:
        await chat.until(lambda: len(chat.messages) == PAGE)
        assert chat.messages[-1] == "message 99"
        assert at_end(chat)
        await chat.pilot.press("ctrl+home")
        await chat.until(lambda: len(chat.messages) == 2 * PAGE)
        await chat.settle()
        top = next(v for v in chat.screen.query(MessageView) if v.region.bottom > 3)
        assert top.entry.text == f"message {100 - PAGE}"  # what was at the top stays there
        await chat.pilot.press("ctrl+home")
        await chat.until(lambda: len(chat.messages) == 100)
        assert chat.messages[0] == "message 0"
        await chat.press("ctrl+end")
        assert at_end(chat)


async def test_a_window_that_is_higher_than_a_page_is_filled(
    start_chat: StartChat, tmp_path: Path
) -> None:
    fill(tmp_path / "chats.db", 100)
    async with start_chat(size=(80, 150)) as chat:
        await chat.until(lambda: len(chat.messages) == 2 * PAGE)
        await chat.settle()
        assert at_end(chat)


async def test_the_end_stays_in_sight_until_the_person_scrolls_away(
    start_chat: StartChat,
) -> None:
    lines = [f"line {number}\n\n" for number in range(60)]
    async with start_chat(Script([*lines, "end"], held=True)) as chat:
        await chat.say("go")
        await chat.until(lambda: "line 59" in chat.messages[1])
        await chat.settle()
        assert at_end(chat)
        await chat.press("pageup")
        place = transcript(chat).scroll_y
        assert not at_end(chat)
        chat.runtime.release.set()
        await chat.until(lambda: chat.messages[1].endswith("end"))
        await chat.settle()
        assert transcript(chat).scroll_y == place
        await chat.say("next")
        assert at_end(chat)


async def test_an_answer_of_5000_lines_is_one_widget_and_whole(start_chat: StartChat) -> None:
    code = "".join(f"print({number})\n" for number in range(2500))
    prose = "".join(f"Sentence {number}.\n\n" for number in range(1250))
    async with start_chat(Script([f"```python\n{code}```\n", prose])) as chat:
        await chat.say("go")
        assert len(chat.screen.query(MessageView)) == 2
        rows = chat.messages[1].split("\n")
        assert len(rows) == 2501 + 2 * 1250
        assert rows[1] == " print(0)"
        assert rows[-1] == "Sentence 1249."


async def test_only_rows_in_sight_are_drawn(start_chat: StartChat) -> None:
    async with start_chat(Script(["x\n\n" * 2000])) as chat:
        await chat.say("go")
        view = chat.screen.query(MessageView).last()
        drawn: list[int] = []
        render_line = view.render_line
        view.render_line = lambda y: drawn.append(y) or render_line(y)  # type: ignore[method-assign, func-returns-value]
        view.refresh()
        await chat.settle()
        assert 0 < len(drawn) <= chat.app.size.height


async def test_messages_fit_the_window_whatever_its_size(start_chat: StartChat) -> None:
    answer = (
        "A long sentence that has to wrap. " * 5 + "\n\n```\n" + "code " * 40 + "\n```\n\n漢字" * 20
    )
    async with start_chat(Script([answer])) as chat:
        await chat.say("go")
        for width, height in ((40, 12), (200, 60), (20, 5), (80, 24)):
            await chat.pilot.resize_terminal(width, height)
            await chat.settle()
            words = "".join(chat.messages[1].split())
            assert words == "".join(answer.replace("```", "").split())


async def test_selected_text_is_what_is_copied(start_chat: StartChat) -> None:
    async with start_chat(Script(["# Title\n\n**bold** text"])) as chat:
        await chat.say("go")
        view = chat.screen.query(MessageView).last()
        assert view.get_selection(SELECT_ALL) == ("Title\n\nbold text", "\n")
        assert view.get_selection(Selection(Offset(2, 0), Offset(4, 2))) == ("tle\n\nbold", "\n")
        chat.screen.selections = {view: SELECT_ALL}
        await chat.pilot.press("ctrl+c")
        assert chat.app.clipboard == "Title\n\nbold text"


async def test_in_a_long_sitting_old_messages_stop_being_widgets(start_chat: StartChat) -> None:
    async with start_chat() as chat:
        view = transcript(chat)
        for number in range(3 * PAGE + 2):
            view.add(Entry("user", f"message {number}"))
            await chat.pilot.pause()
        await chat.settle()
        assert len(chat.messages) == 2 * PAGE + 2
        assert chat.messages[0] == f"message {PAGE}"
        await chat.pilot.press("ctrl+home")
        await chat.until(lambda: len(chat.messages) == 3 * PAGE + 2)
        assert chat.messages[0] == "message 0"
