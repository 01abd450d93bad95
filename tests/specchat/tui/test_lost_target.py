"""What the person sees where the server, the network or this program itself dies mid-answer."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from remote.delay_line import DelayProxy, Line
from specchat.backends.answer_options import AnswerOptions
from specchat.backends.runtime import Runtime
from specchat.backends.verify_server import stream
from specchat.backends.verify_server.pair import RemoteOptions
from specchat.backends.verify_server.stream import OnLoss
from specchat.chats import ChatStore
from specchat.models.registry import Profile
from specchat.tui import verifier
from specchat.tui.app import SpecchatApp
from specchat.tui.services import Services
from specengine.sampling import SamplingParams
from support.chat_app import Chat, StartChat
from support.command_line import environment
from support.remote_chat import QUESTION, ask, remote_runtime
from support.serve_process import free_port, serving
from support.smollm import UNENDING
from support.verify_server import running_server

pytestmark = pytest.mark.usefixtures("smollm_step")

_READY = b"Ask anything"  # stands in the empty prompt
N = 160
OPTIONS = AnswerOptions(
    sampling=SamplingParams(temperature=0.7, seed=5, logit_bias=UNENDING), max_tokens=N
)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(stream, "_ALONE_AFTER_S", 0.3)
    monkeypatch.setattr(stream, "_LONGEST_PAUSE_S", 0.3)
    monkeypatch.setattr(verifier, "EVERY_S", 0.2)


@asynccontextmanager
async def chat_with(
    services: Services, url: str, on_loss: OnLoss, draft: Path
) -> AsyncIterator[Chat]:
    """A chat with a target at `url` and a draft model here."""
    runtime = Runtime(services.registry, n_threads=1, remote=RemoteOptions(on_loss=on_loss))
    profile = Profile(name="remote", description="", target=url, draft=str(draft), system="")
    own = replace(services, runtime=runtime, profile=profile, options=lambda _: OPTIONS)
    app = SpecchatApp(own)
    async with app.run_test() as pilot:
        chat = Chat(pilot, services.open_store())
        await chat.until(lambda: chat.status.startswith("● remote"))
        yield chat
        await pilot.press("ctrl+q")
        await chat.until(lambda: not app.is_running)


async def text_of_the_target_alone(url: str) -> str:
    async with remote_runtime(url) as runtime:
        return (await ask(runtime, max_tokens=N)).text


def answer_of(chat: Chat) -> str:
    """What has come of the answer so far."""
    entries = chat.screen._chat.conversation.entries
    return entries[1].text if len(entries) > 1 else ""


async def ask_and_wait_for(characters: int, chat: Chat) -> None:
    """The question is asked, and so much of the answer has come: not all of it."""
    chat.prompt.text = QUESTION
    chat.prompt.action_submit()
    while len(answer_of(chat)) < characters:
        await asyncio.sleep(0.005)


def is_stored(chat: Chat) -> bool:
    return [status for *_, status in chat.stored][1:] in (["done"], ["length"])


@pytest.mark.slow
async def test_the_server_is_killed_and_comes_back_later(
    services: Services, tiny_model: Path, tmp_path: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with serving(tmp_path, port) as first:
        expected = await text_of_the_target_alone(url)
        async with chat_with(services, url, "local", tiny_model) as chat:
            await ask_and_wait_for(20, chat)
            first.kill()
            first.wait()
            await chat.until(lambda: is_stored(chat))
            assert "not verified from here on" in chat.messages[1]
            assert any("has not verified" in note for note in chat.notes)
            message = chat.store.messages(chat.store.chats()[0].id)[1]
            assert message.unverified is not None
            assert expected.startswith(message.text[: message.unverified.char])
            with serving(tmp_path, port):
                await chat.until(lambda: "not verified" not in chat.messages[1])
                # It is verified piece by piece, and stored meanwhile.
                stored = partial(chat.store.messages, message.chat_id)
                await chat.until(lambda: stored()[1].text == expected)
                await chat.until(lambda: stored()[1].unverified is None)


async def test_the_network_is_down_for_a_while(services: Services, tiny_model: Path) -> None:
    with running_server(tiny_model, places=1) as server, DelayProxy(server.url) as proxy:
        expected = await text_of_the_target_alone(server.url)
        async with chat_with(services, proxy.url, "wait", tiny_model) as chat:
            await ask_and_wait_for(20, chat)
            proxy.line = Line(down=True)
            proxy.cut()
            await chat.until(lambda: "waiting, Esc stops" in chat.status)
            assert expected.startswith(answer_of(chat))
            proxy.line = Line()
            await chat.until(lambda: is_stored(chat))
            assert chat.stored[1][1] == expected
            assert any("taken up again where it was cut" in note for note in chat.notes)


@pytest.mark.skipif(os.name != "posix", reason="kill -9, and a terminal to kill it in")
async def test_this_program_is_killed_and_started_again(
    start_chat: StartChat, tiny_model: Path, tmp_path: Path
) -> None:
    database = tmp_path / "home" / "data" / "chats.db"
    with running_server(tiny_model, places=1) as server:
        said = until_killed(server.url, tmp_path / "home", database)
        server.wait_until_idle()
    async with start_chat(open_store=lambda: ChatStore(database)) as chat:
        await chat.until(lambda: len(chat.messages) == 2)
        assert chat.messages[0] == QUESTION
        text, _, ending = chat.messages[1].rpartition("\n\n")
        assert ending == "the program ended here"
        assert " ".join(said.split()) == " ".join(text.split())


def until_killed(url: str, home: Path, database: Path) -> str:
    """Asks in a terminal, kills the program amid the answer; what was stored of it by then."""
    import pty

    ours, theirs = pty.openpty()
    asking = subprocess.Popen(
        [sys.executable, "-m", "specchat", "--target", url, "--max-tokens", "400", "--seed", "5"],
        env={**environment(home), "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    shown = b""
    deadline = time.monotonic() + 120
    try:
        while len(stored_answer(database)) < 20:
            assert time.monotonic() < deadline, "nothing was stored"
            assert asking.poll() is None, "the program ended by itself"
            was_ready = _READY in shown
            with suppress(BlockingIOError):
                shown += os.read(ours, 1 << 16)
            if _READY in shown and not was_ready:
                os.write(ours, QUESTION.encode() + b"\r")
            time.sleep(0.05)
        asking.kill()
        asking.wait()
    finally:
        asking.kill()
        os.close(ours)
    return stored_answer(database)


def stored_answer(database: Path) -> str:
    if not database.exists():
        return ""
    with closing(sqlite3.connect(database)) as db, suppress(sqlite3.OperationalError):
        row = db.execute("SELECT text FROM messages WHERE role = 'assistant'").fetchone()
        return str(row[0]) if row else ""
    return ""  # the program is making it just now
