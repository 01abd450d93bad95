"""Whether the server answers is known from outside, and who asks meanwhile is told."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from threading import Event

import pytest
from starlette.types import Message

from specchat.server.app import make_app
from support.verify_server import VerifyServer, running_server

CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
GENERATE = {"base": 0, "base_hash": "0" * 32, "append": [1], "seed": 1, "max_tokens": 2}
SESSIONS = "/specchat/v1/sessions"


def statuses(server: VerifyServer) -> tuple[int, int, int]:
    """Of the health, a chat completion, and an answer of a session."""
    with server.client() as client:
        session = client.post(SESSIONS, json={"protocol": {"min": 1, "max": 1}}).json()["session"]
        path = f"{SESSIONS}/{session}/generate"
        return (
            client.get("/health").status_code,
            client.post("/v1/chat/completions", json=CHAT).status_code,
            client.post(path, json=GENERATE).status_code,
        )


def test_a_server_whose_model_hangs_says_so_and_takes_no_more_answers(
    server: VerifyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, comes_back, hangs = server.service.model.scheduler, Event(), Event()
    assert statuses(server) == (200, 200, 200)

    def hang() -> bool:
        hangs.set()
        return comes_back.wait(60)

    held = scheduler.call(hang)
    assert hangs.wait(20)
    try:
        with monkeypatch.context() as later, server.client() as client:
            later.setattr(scheduler, "_clock", lambda: time.monotonic() + 1000)
            told = client.get("/health").json()
            assert statuses(server) == (503, 503, 503)
    finally:
        comes_back.set()
    assert told["status"] == "failing"
    assert "hangs" in told["reason"]
    assert held.result(20)
    assert statuses(server) == (200, 200, 200)


def test_a_server_whose_models_thread_has_died_says_so(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        raise SystemExit

    with running_server(tiny_model, places=1) as server, server.client() as client:
        monkeypatch.setattr(server.service.model.scheduler, "step", die)
        asked = client.post("/v1/chat/completions", json=CHAT)
        assert asked.status_code == 503
        told = client.get("/health")
        assert told.status_code == 503
        assert "start the server again" in told.json()["reason"]
        assert statuses(server) == (503, 503, 503)


async def test_a_request_that_is_cut_off_by_the_end_is_told_so(server: VerifyServer) -> None:
    """Its body never ends: the ASGI messages of that, and uvicorn's cancelling after its grace."""
    sent: list[Message] = []
    waits = asyncio.Event()

    async def receive() -> Message:
        waits.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        **{"type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b""},
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    request = asyncio.create_task(make_app(server.service)(scope, receive, send))
    await waits.wait()
    request.cancel()
    await request
    assert sent[0]["status"] == 503
