"""The OpenAI protocol, as other programs speak it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.types import Message

from specchat.server.app import make_app
from support.verify_server import VerifyServer

ASK = {"messages": [{"role": "user", "content": "Count to five."}], "max_tokens": 12, "seed": 3}


@pytest.fixture
def client(server: VerifyServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def events(client: httpx.Client, **changes: Any) -> list[dict[str, Any]]:
    response = client.post("/v1/chat/completions", json={**ASK, "stream": True, **changes})
    assert response.headers["content-type"].startswith("text/event-stream")
    *data, done = [line[6:] for line in response.text.splitlines() if line]
    assert done == "[DONE]"
    return [json.loads(line) for line in data]


def text_of(chunks: list[dict[str, Any]]) -> str:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return "".join(choice["delta"].get("content", "") for choice in choices)


def test_a_stream_has_the_text_of_the_whole_answer(client: httpx.Client) -> None:
    whole = client.post("/v1/chat/completions", json=ASK).json()
    chunks = events(client, stream_options={"include_usage": True})
    choice = whole["choices"][0]
    assert text_of(chunks) == choice["message"]["content"] != ""
    assert chunks[-2]["choices"][0]["finish_reason"] == choice["finish_reason"] == "length"
    assert chunks[-1]["usage"] == whole["usage"]
    assert whole["usage"]["completion_tokens"] == 12


def test_text_ends_before_a_stop_string(client: httpx.Client) -> None:
    text = text_of(events(client))
    stop = text[4:7]
    whole = client.post("/v1/chat/completions", json={**ASK, "stop": stop}).json()
    assert whole["choices"][0]["message"]["content"] == text[: text.index(stop)]
    assert whole["choices"][0]["finish_reason"] == "stop"


def test_every_request_gives_its_session_back(server: VerifyServer, client: httpx.Client) -> None:
    before = len(server.service.sessions)
    client.post("/v1/chat/completions", json=ASK)
    with client.stream(
        "POST", "/v1/chat/completions", json={**ASK, "stream": True, "max_tokens": 300}
    ) as stream:
        next(stream.iter_lines())
    server.wait_until(lambda: len(server.service.sessions) == before)


async def test_an_answer_that_nobody_waits_for_is_given_up(server: VerifyServer) -> None:
    """The client sent its request and left: the ASGI messages of that, in their order."""
    before, sent = len(server.service.sessions), []
    body = json.dumps({**ASK, "max_tokens": 400, "temperature": 0}).encode()
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        **{"type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b""},
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    passes = server.service.model.scheduler.passes
    await make_app(server.service)(scope, receive, send)
    assert sent == []
    server.wait_until_idle()
    assert len(server.service.sessions) == before
    assert server.service.model.scheduler.passes - passes < 100


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"messages": []}, 400),
        ({"messages": [{"role": "robot", "content": "hi"}]}, 400),
        ({"messages": [{"role": "user", "content": "long " * 600}]}, 413),
        ({"messages": ASK["messages"], "temperature": -1}, 400),
    ],
)
def test_what_cannot_be_answered_is_refused(
    client: httpx.Client, body: dict[str, Any], status: int
) -> None:
    assert client.post("/v1/chat/completions", json=body).status_code == status


def test_an_answer_cut_inside_a_character_ends_before_it(
    server: VerifyServer, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.service.model.vocab, "piece", lambda token: "ế".encode()[:2])
    whole = client.post("/v1/chat/completions", json={**ASK, "max_tokens": 1}).json()
    assert whole["choices"][0]["message"]["content"] == ""
    assert text_of(events(client, max_tokens=1)) == ""
