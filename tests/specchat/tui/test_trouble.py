"""What goes wrong is told on the screen; nothing that was typed is lost."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.widgets._toast import Toast

from specchat.chats import ChatStore
from specchat.errors import SpecchatError
from specchat.models.registry import Registry
from specchat.printable import printable
from specchat.tui.app import SpecchatApp
from specchat.tui.screens.chat import ChatScreen
from specchat.tui.services import Services
from specengine.core.errors import ModelFileError, SamplingError
from support.chat_app import StartChat
from support.fake_runtime import FakeRuntime, Script


class FullDisk:
    """A store whose writing fails while `full` is set."""

    def __init__(self, path: Path) -> None:
        self.full = True
        self._store = ChatStore(path)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name in ("create_chat", "add_message", "append_to_message", "finish_message"):
            return lambda *args, **kwargs: self._write(method, *args, **kwargs)
        return method

    def _write(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.full:
            raise SpecchatError("chats.db: the disk is full")
        return method(*args, **kwargs)


async def test_a_broken_model_is_named_and_another_one_answers_what_was_asked(
    start_chat: StartChat, registry: Registry
) -> None:
    runtime = FakeRuntime([Script(["Hello."])], load_error=ModelFileError("x.gguf is truncated"))
    async with start_chat(runtime=runtime) as chat:
        assert chat.notes == ["x.gguf is truncated"]
        assert chat.status.startswith("○ no model")
        await chat.say("Hi")
        assert chat.messages == ["Hi"]
        runtime.load_error = None
        await chat.pilot.press("ctrl+t", "down", "enter")
        await chat.until(lambda: len(chat.messages) == 2)
        assert chat.messages == ["Hi", "Hello."]
        assert [profile.name for profile in chat.remembered] == ["laptop"]


async def test_an_unforeseen_failure_is_one_line_too(start_chat: StartChat) -> None:
    runtime = FakeRuntime(load_error=RuntimeError("boom"))
    async with start_chat(runtime=runtime) as chat:
        assert chat.notes == ["the model failed (RuntimeError: boom); see the log for details"]


async def test_a_failing_answer_keeps_what_came_and_can_be_tried_again(
    start_chat: StartChat,
) -> None:
    scripts = [Script(["half"], error="the context is full"), Script(["whole"])]
    async with start_chat(*scripts) as chat:
        await chat.say("question")
        assert chat.messages[1] == "half\n\nfailed here"
        assert chat.notes == ["the context is full"]
        await chat.press("ctrl+r")
        assert chat.messages == ["question", "whole"]


async def test_notices_of_the_engine_are_shown(start_chat: StartChat) -> None:
    async with start_chat(Script(["ok"], notices=("left out 2 turns",))) as chat:
        await chat.say("question")
        assert chat.notes == ["left out 2 turns"]


async def test_settings_that_do_not_fit_are_told_before_anything_is_loaded(
    start_chat: StartChat,
) -> None:
    def options(profile: object) -> object:
        raise SamplingError("settings.toml: sampling.top_k: must not be negative")

    async with start_chat(options=options) as chat:
        assert chat.notes == ["settings.toml: sampling.top_k: must not be negative"]
        assert chat.runtime.loaded == []


async def test_without_a_store_the_chat_works_and_says_so(start_chat: StartChat) -> None:
    def broken() -> ChatStore:
        raise SpecchatError("chats.db is no database")

    async with start_chat(Script(["Hello."]), open_store=broken) as chat:
        assert chat.notes == ["Chats are not saved: chats.db is no database"]
        await chat.say("Hi")
        assert chat.messages == ["Hi", "Hello."]
        await chat.press("ctrl+n")
        assert chat.messages == []


async def leave_with_full_disk(start_chat: StartChat, folder: Path, question: str) -> None:
    store = FullDisk(folder / "chats.db")
    async with start_chat(Script(["Hello."]), open_store=lambda: store) as chat:
        await chat.say(question)
        await chat.leave()
        assert chat.app.return_code == 1


async def test_leaving_with_a_full_disk_writes_the_chat_to_a_file_that_it_names(
    start_chat: StartChat,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    await leave_with_full_disk(start_chat, tmp_path, "Hi")
    [file] = tmp_path.glob("specchat-*.md")
    assert file.read_text(encoding="utf-8") == "## You\n\nHi\n\n## Assistant\n\nHello.\n"
    assert str(file) in "".join(capsys.readouterr().err.splitlines())


async def test_where_no_file_can_be_written_either_leaving_prints_the_chat(
    start_chat: StartChat,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    await leave_with_full_disk(start_chat, tmp_path, "[bold]Hi")
    told = capsys.readouterr().err
    assert "[bold]Hi" in told
    assert "Hello." in told


async def test_a_full_disk_is_told_once_and_everything_is_saved_when_it_has_room_again(
    start_chat: StartChat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specchat.tui.open_chat._RETRY_S", 0.01)
    store = FullDisk(tmp_path / "chats.db")
    async with start_chat(Script(["Hello."]), open_store=lambda: store) as chat:
        await chat.say("Hi")
        await chat.until(lambda: bool(chat.notes))
        await chat.press("ctrl+n")
        assert chat.messages == ["Hi", "Hello."]  # not saved, so it stays
        assert chat.notes == ["Not saved, trying again: chats.db: the disk is full"]
        store.full = False
        await chat.until(lambda: len(chat.stored) == 2)
        assert chat.stored == [("user", "Hi", "done"), ("assistant", "Hello.", "done")]
        await chat.until(lambda: chat.notes[-1] == "Everything is saved again.")


_DELETABLE = pytest.mark.skipif(sys.platform == "win32", reason="an open file stays there")


def delete_database(folder: Path) -> None:
    for file in folder.glob("chats.db*"):
        file.unlink()


@_DELETABLE
@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_chat_whose_database_is_deleted_is_written_anew_and_that_is_told(
    start_chat: StartChat, tmp_path: Path, goes_on: bool
) -> None:
    async with start_chat(Script(["One."]), Script(["Two."])) as chat:
        await chat.say("first")
        await chat.until(lambda: len(chat.stored) == 2)
        delete_database(tmp_path)
        if goes_on:
            await chat.say("second")
            await chat.until(lambda: bool(chat.notes))
            [note] = chat.notes
            assert "deleted or replaced" in note
            assert "saved as a new one" in note
        await chat.leave()
        assert chat.app.return_code == 0
    with sqlite3.connect(tmp_path / "chats.db") as db:
        texts = [text for (text,) in db.execute("SELECT text FROM messages ORDER BY id")]
        [title] = db.execute("SELECT title FROM chats")
    assert texts == ["first", "One.", "second", "Two."][: 4 if goes_on else 2]
    assert title == ("first",)


@_DELETABLE
async def test_a_disk_that_is_gone_keeps_nobody_from_chatting_and_gets_all_when_it_is_back(
    start_chat: StartChat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specchat.tui.open_chat._RETRY_S", 0.01)
    async with start_chat(Script(["One."]), Script(["Two."])) as chat:
        await chat.say("first")
        await chat.until(lambda: len(chat.stored) == 2)
        delete_database(tmp_path)
        (tmp_path / "chats.db").mkdir()  # nothing can be written there
        await chat.say("second")
        await chat.until(lambda: bool(chat.notes))
        assert chat.notes[0].startswith("Not saved, trying again: ")
        assert chat.messages == ["first", "One.", "second", "Two."]
        (tmp_path / "chats.db").rmdir()
        await chat.until(lambda: chat.notes[-1] == "Everything is saved again.")
    store = ChatStore(tmp_path / "chats.db")
    [saved] = store.chats()
    assert [m.text for m in store.messages(saved.id)] == ["first", "One.", "second", "Two."]


async def test_a_chat_that_another_program_deletes_is_saved_as_a_new_one_when_it_goes_on(
    start_chat: StartChat,
) -> None:
    async with start_chat(Script(["One."]), Script(["Two."])) as chat:
        await chat.say("first")
        await chat.until(lambda: len(chat.stored) == 2)
        chat.store.delete_chat(chat.store.chats()[0].id)
        await chat.say("second")
        await chat.until(lambda: len(chat.stored) == 4)
        assert [text for _, text, _ in chat.stored] == ["first", "One.", "second", "Two."]
        await chat.until(lambda: bool(chat.notes))
        assert "saved as a new one" in chat.notes[0]


@_DELETABLE
async def test_the_chats_of_a_database_that_took_the_place_of_the_open_one_can_be_chosen(
    start_chat: StartChat, tmp_path: Path
) -> None:
    async with start_chat() as chat:
        await chat.settle()
        delete_database(tmp_path)
        other = ChatStore(tmp_path / "chats.db")
        other.add_message(other.create_chat("tiny").id, "user", "copied")
        await chat.pilot.press("ctrl+o")
        await chat.until(lambda: "copied" in chat.app.export_screenshot())
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.messages == ["copied"])


async def test_an_answer_that_a_crash_cut_off_is_shown_as_such(
    start_chat: StartChat, tmp_path: Path
) -> None:
    async with start_chat(Script(["so far", "!"], held=True)) as chat:
        await chat.say("question")
        await chat.until(lambda: ("assistant", "so far", "streaming") in chat.stored)
        chat.runtime.release.set()
        await chat.until(lambda: ("assistant", "so far!", "done") in chat.stored)
    with sqlite3.connect(tmp_path / "chats.db") as db:
        db.execute("UPDATE messages SET status = 'interrupted' WHERE role = 'assistant'")
    async with start_chat() as chat:
        await chat.until(lambda: len(chat.messages) == 2)
        assert chat.messages[1] == "so far!\n\nthe program ended here"


HOSTILE = "\x1b]0;owned\x07 \x1b[2J [bold]x[/bold] [@click=app.quit]here[/] [/] \x9b31m \u202egnp"


async def test_hostile_text_is_shown_and_never_obeyed(start_chat: StartChat) -> None:
    async with start_chat(Script([HOSTILE], error=HOSTILE, notices=(HOSTILE,))) as chat:
        await chat.say(HOSTILE)
        await chat.until(lambda: len(chat.stored) == 2)
        await chat.press("ctrl+o")
        drawn = chat.app.export_screenshot()
        assert not any(control in drawn for control in ("\x1b", "\x07", "\x9b", "\u202e"))
        assert "[bold]x[/bold]" in chat.messages[1]
        assert "[@click=app.quit]here[/]" in chat.messages[1]
        for y in range(chat.app.size.height):
            for x in range(chat.app.size.width):
                assert "@click" not in chat.app.screen.get_style_at(x, y).meta


async def test_notifications_are_text_too(services: Services) -> None:
    app = SpecchatApp(services)
    async with app.run_test(notifications=True) as pilot:
        app.notify(HOSTILE)
        while not app.screen.query(Toast):
            await pilot.pause()
        toast = app.screen.query_one(Toast).render()
        assert str(toast) == printable(HOSTILE)
        assert toast.spans == []


async def test_an_error_of_our_own_is_one_line_without_what_was_said(
    services: Services, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: ChatScreen) -> None:
        words = ["a secret"]
        raise IndexError(words[7])

    monkeypatch.setattr(ChatScreen, "action_new_chat", broken)
    app = SpecchatApp(services)
    with pytest.raises(IndexError):
        async with app.run_test() as pilot:
            await pilot.press("ctrl+n")
    told = capsys.readouterr().err
    assert told.startswith("specchat: internal error (IndexError)")
    assert "a secret" not in told
    assert app.return_code == 1
