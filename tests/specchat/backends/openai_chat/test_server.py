"""Servers that verify nothing: their own words come through, whatever they do."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.openai_chat.server import ChatClient, ChatServer, choose_model
from specchat.errors import SpecchatError
from specchat.wire.address import parse_address
from specchat.wire.network import NetworkThread
from specengine.chat.chat_template import Turn
from specengine.core.cancel import AbortFlag
from specengine.core.events import Finished
from specengine.sampling import SamplingParams
from support.chat_stand_in import ChatStandIn, Reply, chat_stand_in, events
from support.command_line import specchat
from support.remote_chat import ask, remote_runtime
from support.serve_process import free_port
from support.verify_server import VerifyServer

KEY = "sk-a-key-that-nobody-may-see"


async def answer(stand_in: ChatStandIn, suffix: str = "", **options: object) -> Finished:
    async with remote_runtime(stand_in.url + suffix) as runtime:
        return await ask(runtime, **options)  # type: ignore[arg-type]


async def test_an_answer_comes_through_and_it_is_said_that_nothing_is_verified() -> None:
    with chat_stand_in(Reply([events("Xin ", "chào", " 🎉")])) as stand_in:
        finished = await answer(stand_in)
    assert (finished.text, finished.reason) == ("Xin chào 🎉", "stop")
    assert finished.notices == ("big answered alone: its server cannot verify drafts",)
    request = stand_in.requests[0]
    assert (request["model"], request["seed"], request["temperature"]) == ("big", 5, 0.7)
    assert (request["max_tokens"], request["stream"]) == (40, True)
    assert "top_k" not in request  # nobody asked for it: that is the server's choice
    assert request["messages"][-1]["role"] == "user"


async def test_a_banned_token_is_banned_there_too() -> None:
    with chat_stand_in(Reply([events("ok")])) as stand_in:
        await answer(stand_in, logit_bias={5: float("-inf"), 6: 2.5})
    assert stand_in.requests[0]["logit_bias"] == {"5": -100, "6": 2.5}


async def test_the_address_may_be_written_with_its_version() -> None:
    with chat_stand_in(Reply([events("ok")])) as stand_in:
        await answer(stand_in, "/v1/")
    assert stand_in.paths == ["/specchat/v1/info", "/v1/models", "/v1/chat/completions"]


@pytest.mark.parametrize(
    ("models", "named"), [(("a", "b:7b"), "a, b:7b"), ((), "none")], ids=["several", "none"]
)
async def test_one_of_several_models_has_to_be_named(models: tuple[str, ...], named: str) -> None:
    with chat_stand_in(Reply([events("ok")]), models=models) as stand_in:
        with pytest.raises(SpecchatError, match=rf"several models \({named}\).*#MODEL"):
            await answer(stand_in)
        assert (await answer(stand_in, "/v1#b:7b")).text == "ok"
    assert stand_in.requests[0]["model"] == "b:7b"


async def test_reasoning_stands_apart_from_the_answer() -> None:
    parts = [{"reasoning_content": "Hm"}, {"reasoning": ", yes."}, {"content": "Four."}]
    with chat_stand_in(Reply([events(*parts)])) as stand_in:
        finished = await answer(stand_in)
    assert (finished.reasoning, finished.text) == ("Hm, yes.", "Four.")
    stats = finished.stats
    assert (stats.reasoning_tokens, stats.completion_tokens) == (2, 3)
    assert stats.ttft_s is not None
    assert stats.answer_s is not None
    assert stats.ttft_s < stats.answer_s


async def test_a_thought_that_is_no_answer_yet_is_kept_as_one() -> None:
    with chat_stand_in(Reply([events({"reasoning_content": "Hm"})])) as stand_in:
        finished = await answer(stand_in)
    assert (finished.reasoning, finished.text, finished.reason) == ("Hm", "", "stop")


@pytest.mark.parametrize(
    ("think", "sent"),
    [
        (None, {}),
        ("low", {"reasoning_effort": "low"}),
        ("off", {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
    ],
)
async def test_the_server_is_told_whether_to_think(think: str | None, sent: Any) -> None:
    with chat_stand_in(Reply([events("ok")])) as stand_in:
        await answer(stand_in, think=think)
    names = ("reasoning_effort", "chat_template_kwargs")
    assert {n: stand_in.requests[0][n] for n in names if n in stand_in.requests[0]} == sent


async def test_usage_is_the_servers_own_count() -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":31}}\n\n'
    stream = events("a", "b", done=False) + usage + b"data: [DONE]\n\n"
    with chat_stand_in(Reply([stream])) as stand_in:
        finished = await answer(stand_in)
    assert (finished.stats.prompt_tokens, finished.stats.completion_tokens) == (7, 31)


async def test_a_stop_string_over_several_events_ends_the_text_before_it() -> None:
    with chat_stand_in(Reply([events("one, tw", "o", ", three")])) as stand_in:
        finished = await answer(stand_in, stop=("two",))
    assert (finished.text, finished.reason) == ("one, ", "stop")
    assert stand_in.requests[0]["stop"] == ["two"]


INCOMPLETE = events("half of", finish=None, done=False)
IMPOSSIBLE = b'data: {"choices":[],"usage":{"completion_tokens":1' + b"0" * 400 + b"}}\n\n"


@pytest.mark.parametrize(
    ("stream", "cause"),
    [
        (INCOMPLETE, "incomplete"),
        (INCOMPLETE + b'data: {"error":{"message":"out of memory"}}\n\n', "out of memory"),
        (INCOMPLETE + IMPOSSIBLE, "not a chat completion"),
        (events("half of", finish="content_filter"), "filter has cut the answer (content_filter)"),
        (events("half of", finish="tool_calls"), "gives it none (tool_calls)"),
        (events("half of", finish="function_call"), "gives it none (function_call)"),
        (events("half of", finish="error"), "the answer failed (error)"),
        (events("half of", finish="abort"), "gave up the answer (abort)"),
    ],
)
async def test_an_answer_that_ends_before_its_end_is_kept_and_no_success(
    stream: bytes, cause: str
) -> None:
    with chat_stand_in(Reply([stream])) as stand_in:
        finished = await answer(stand_in)
    assert (finished.text, finished.reason) == ("half of", "error")
    assert cause in str(finished.error)


@pytest.mark.parametrize(
    ("finish", "done", "reason"),
    [
        ("stop", False, "stop"),
        ("length", False, "length"),
        ("eos", True, "stop"),
        ("end_turn", True, "stop"),
    ],
)
async def test_every_other_end_is_the_models_own_with_or_without_done(
    finish: str, done: bool, reason: str
) -> None:
    with chat_stand_in(Reply([events("all of it", finish=finish, done=done)])) as stand_in:
        assert (await answer(stand_in)).reason == reason


async def test_more_than_was_asked_for_is_cut_and_refused() -> None:
    words = [f" word{i}" for i in range(500)]
    with chat_stand_in(Reply([events(*words)])) as stand_in:
        finished = await answer(stand_in, max_tokens=8)
    assert finished.reason == "error"
    assert "more than the 8 tokens" in str(finished.error)
    assert "".join(words).startswith(finished.text)
    assert 8 <= len(finished.text.split()) < 50


@pytest.mark.parametrize(
    "pieces",
    [
        ["a"] * 200,  # a server that sends letters
        ["a" * 2000],  # and one that sends everything at once
        [{"reasoning_content": "hm " * 9}] * 99,
    ],
)
async def test_an_answer_comes_in_whatever_pieces_a_server_likes(
    pieces: list[str | dict[str, str]],
) -> None:
    with chat_stand_in(Reply([events(*pieces)])) as stand_in:
        assert (await answer(stand_in, max_tokens=8)).reason == "stop"


def test_a_wait_for_a_busy_server_says_so(tmp_path: Path) -> None:
    busy = Reply([b'{"error":"too many"}'], 429, {"Retry-After": "0"})
    with chat_stand_in(busy, Reply([events("now")])) as stand_in:
        done = specchat(tmp_path, "ask", "--target", stand_in.url, "--no-draft", "Hi")
    assert (done.returncode, done.stdout) == (0, b"now\n")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"specchat: waiting: {stand_in.url}/v1/chat/completions is busy (429)")


async def test_an_answer_whose_task_dies_ends_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stream(self: ChatClient, body: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(ChatClient, "stream", stream)
    with chat_stand_in() as stand_in:
        finished = await answer(stand_in)
    assert finished.reason == "error"
    assert "ZeroDivisionError: a fault of ours" in str(finished.error)


async def test_a_busy_server_is_asked_again_when_it_says() -> None:
    busy = Reply([b"{}"], 429, {"Retry-After": "0"})
    with chat_stand_in(busy, busy, Reply([events("now")])) as stand_in:
        assert (await answer(stand_in)).text == "now"
    assert len(stand_in.requests) == 3


async def test_a_wrong_key_is_not_tried_again_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SPECCHAT_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    with chat_stand_in(Reply([b'{"error":{"message":"no such key"}}'], 401)) as stand_in:
        finished = await answer(stand_in)
    assert stand_in.keys == [f"Bearer {KEY}"]
    assert "no such key" in str(finished.error)
    assert KEY not in caplog.text + str(finished)


async def test_nobody_listens_there() -> None:
    with pytest.raises(SpecchatError, match="no connection"):
        async with remote_runtime(f"http://127.0.0.1:{free_port()}"):
            pass


async def test_our_own_server_speaks_it_too(server: VerifyServer) -> None:
    """With the verify protocol hidden, the same model says the same for the same seed."""
    network = NetworkThread()
    client = ChatClient(parse_address(server.url), None)
    chat = ChatServer(client, network.call(choose_model(client)).id, network, AbortFlag())
    options = AnswerOptions(SamplingParams(temperature=0.7, seed=4), max_tokens=6)
    ask_twice = [
        list(chat.answer([Turn("user", "Tell a story about a fox.")], options, print))[-1]
        for _ in range(2)
    ]
    chat.close()
    network.close()
    assert isinstance(ask_twice[0], Finished)
    assert isinstance(ask_twice[1], Finished)
    assert ask_twice[0].reason == "length"
    assert ask_twice[0].text == ask_twice[1].text != ""
    assert ask_twice[0].stats.completion_tokens == 6
