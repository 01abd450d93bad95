"""What a person gets where the connection is lost amid an answer, and does not come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote.delay_line import DelayProxy, Line
from specchat.backends.verify_server import stream
from specchat.backends.verify_server.pair import RemoteOptions
from specengine.core.events import Chunk, Unverified
from specengine.stream.unverified import PartialAnswer
from support.remote_chat import ask, remote_runtime
from support.verify_server import VerifyServer, running_server

pytestmark = pytest.mark.usefixtures("smollm_step")

LOCAL = RemoteOptions(on_loss="local")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_GIVE_UP_S", 0.3)
    monkeypatch.setattr(stream, "_ALONE_AFTER_S", 0.3)
    monkeypatch.setattr(stream, "_LONGEST_PAUSE_S", 0.5)


@pytest.fixture
def proxy(server: VerifyServer) -> Iterator[DelayProxy]:
    with DelayProxy(server.url) as proxy:
        yield proxy


def after(n: int, proxy: DelayProxy, line: Line) -> Callable[[Chunk], None]:
    """The line changes, with a cut, once `n` tokens have come."""
    seen = 0

    def on_chunk(chunk: Chunk) -> None:
        nonlocal seen
        seen += len(chunk.tokens)
        if seen - len(chunk.tokens) < n <= seen:
            proxy.line = line
            proxy.cut()

    return on_chunk


async def test_stop_keeps_what_came(proxy: DelayProxy) -> None:
    async with remote_runtime(proxy.url, remote=RemoteOptions(on_loss="stop")) as runtime:
        whole = await ask(runtime)
        finished = await ask(runtime, on_chunk=after(5, proxy, Line(down=True)))
    assert finished.reason == "error"
    assert 5 <= len(finished.tokens) < len(whole.tokens)
    assert whole.tokens[: len(finished.tokens)] == finished.tokens
    assert "connection was lost" in str(finished.error)


async def test_local_goes_on_in_the_draft_models_words_and_says_so(
    proxy: DelayProxy, tiny_model: Path
) -> None:
    async with remote_runtime(proxy.url, tiny_model, remote=LOCAL) as runtime:
        whole = await ask(runtime)
        finished = await ask(runtime, on_chunk=after(5, proxy, Line(down=True)))
    # The draft model is the target's own file: it says the same, or nearly; unverified it is.
    mark = finished.unverified
    assert mark is not None
    assert 5 <= mark.token < len(finished.tokens)
    assert finished.tokens[: mark.token] == whole.tokens[: mark.token]
    assert whole.text.startswith(finished.text[: mark.char])
    assert (mark.writer, mark.seed) == (tiny_model.stem, 5)
    assert finished.error is None
    assert any("has not verified" in notice for notice in finished.notices)


async def test_what_was_said_alone_is_verified_as_soon_as_the_target_is_back(
    proxy: DelayProxy, tiny_model: Path
) -> None:
    unverified: list[Chunk] = []
    lose = after(5, proxy, Line(down=True))

    def on_chunk(chunk: Chunk) -> None:
        lose(chunk)
        if chunk.unverified is not None:
            unverified.append(chunk)
            if len(unverified) == 3:
                proxy.line = Line()

    async with remote_runtime(proxy.url, tiny_model, remote=LOCAL) as runtime:
        whole = await ask(runtime, max_tokens=160)
        finished = await ask(runtime, max_tokens=160, on_chunk=on_chunk)
    assert len(unverified) >= 3
    assert finished.tokens == whole.tokens
    assert finished.text == whole.text
    assert finished.unverified is None
    assert any("taken up again" in notice for notice in finished.notices)


async def test_an_answer_of_earlier_is_verified_and_gone_on_with(server: VerifyServer) -> None:
    async with remote_runtime(server.url, remote=LOCAL) as runtime:
        whole = await ask(runtime)
        wrong = (*whole.tokens[:9], *reversed(whole.tokens[9:20]))
        begun = PartialAnswer(wrong, Unverified(6, 0, "smollm", seed=5))
        finished = await ask(runtime, seed=77, begun=begun)
    assert finished.tokens == whole.tokens
    assert finished.text == whole.text
    (replaced,) = finished.replaced
    assert replaced.tokens == wrong
    assert replaced.unverified is not None
    assert replaced.unverified.token == 9
    assert whole.text.startswith(replaced.text[: replaced.unverified.char])


async def test_without_a_draft_model_local_keeps_what_came(proxy: DelayProxy) -> None:
    async with remote_runtime(proxy.url, "lookup", remote=LOCAL) as runtime:
        finished = await ask(runtime, on_chunk=after(5, proxy, Line(down=True)))
    assert (finished.reason, finished.unverified) == ("error", None)
    assert len(finished.tokens) >= 5


async def test_wait_goes_on_when_the_connection_is_back(proxy: DelayProxy) -> None:
    async with remote_runtime(proxy.url, remote=RemoteOptions(on_loss="wait")) as runtime:
        whole = await ask(runtime)
        back_at: list[float] = []

        def on_chunk(chunk: Chunk) -> None:
            if not back_at:
                back_at.append(time.monotonic() + 0.8)
                proxy.line = Line(down=True)
                proxy.cut()
                proxy._loop.call_soon_threadsafe(
                    lambda: proxy._loop.call_later(0.8, setattr, proxy, "line", Line())
                )

        finished = await ask(runtime, on_chunk=on_chunk)
    assert finished.tokens == whole.tokens
    assert time.monotonic() > back_at[0]


async def test_a_server_that_was_started_anew_is_told_everything(tiny_model: Path) -> None:
    with running_server(tiny_model, places=1) as first:
        async with remote_runtime(first.url) as runtime:
            whole = await ask(runtime)
            sessions = first.service.sessions
            sessions.ttl_s = 0

            def is_as_good_as_a_new_process() -> bool:
                sessions.expire()  # what is idle, which the last request may not be at once
                return len(sessions) == 0

            first.wait_until(is_as_good_as_a_new_process)
            finished = await ask(runtime)
    assert finished.tokens == whole.tokens
    assert finished.notices == ()


async def test_cancel_frees_the_place_at_once(server: VerifyServer) -> None:
    async with remote_runtime(server.url) as runtime:
        finished = await ask(runtime, on_chunk=lambda chunk: runtime.cancel(), max_tokens=400)
        assert finished.reason == "cancelled"
        assert finished.tokens
        server.wait_until_idle()
