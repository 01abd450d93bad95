"""The OpenAI protocol, as other programs speak it."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.types import Message

from specchat.server.app import make_app
from support.verify_server import VerifyServer

QUESTION = [{"role": "user", "content": "Count to five."}]
ASK = {"messages": QUESTION, "max_tokens": 12, "seed": 3}
SAME_TEXT = pytest.mark.usefixtures("smollm_step")  # however much of it the cache has
LONG = [{"role": "user", "content": "long " * 600}]


@pytest.fixture(autouse=True)
def _unending(server: VerifyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """No token ends an answer: its length is what was asked for, whatever the CPU makes of it."""
    monkeypatch.setattr(server.service.model.scheduler, "_eog", frozenset())


def events(client: httpx.Client, **changes: Any) -> list[dict[str, Any]]:
    response = client.post("/v1/chat/completions", json={**ASK, "stream": True, **changes})
    assert response.headers["content-type"].startswith("text/event-stream")
    *data, done = [line[6:] for line in response.text.splitlines() if line]
    assert done == "[DONE]"
    return [json.loads(line) for line in data]


def text_of(chunks: list[dict[str, Any]]) -> str:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return "".join(choice["delta"].get("content", "") for choice in choices)


def nobody_is_answered(server: VerifyServer) -> bool:
    return not any(session.connections for session in server.service.sessions._all.values())


@SAME_TEXT
def test_a_stream_has_the_text_of_the_whole_answer(client: httpx.Client) -> None:
    client.post("/v1/chat/completions", json=ASK)  # so that both find the prompt in the cache
    whole = client.post("/v1/chat/completions", json=ASK).json()
    chunks = events(client, stream_options={"include_usage": True})
    choice = whole["choices"][0]
    assert text_of(chunks) == choice["message"]["content"] != ""
    assert chunks[-2]["choices"][0]["finish_reason"] == choice["finish_reason"] == "length"
    assert chunks[-1]["usage"] == whole["usage"]
    assert whole["usage"]["completion_tokens"] == 12


@SAME_TEXT
def test_text_ends_before_a_stop_string(client: httpx.Client) -> None:
    text = text_of(events(client))
    stop = text[4:7]
    whole = client.post("/v1/chat/completions", json={**ASK, "stop": stop}).json()
    assert whole["choices"][0]["message"]["content"] == text[: text.index(stop)]
    assert whole["choices"][0]["finish_reason"] == "stop"


def test_every_request_gives_its_session_back(server: VerifyServer, client: httpx.Client) -> None:
    client.post("/v1/chat/completions", json=ASK)
    with client.stream(
        "POST", "/v1/chat/completions", json={**ASK, "stream": True, "max_tokens": 300}
    ) as stream:
        next(stream.iter_lines())
    server.wait_until(lambda: nobody_is_answered(server))


async def test_an_answer_that_nobody_waits_for_is_given_up(server: VerifyServer) -> None:
    """The client sent its request and left: the ASGI messages of that, in their order."""
    sent: list[Message] = []
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
    assert nobody_is_answered(server)
    assert server.service.model.scheduler.passes - passes < 100


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"messages": []}, "invalid", "messages"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, "invalid", "messages"),
        ({"messages": [{"role": "user"}]}, "invalid", "messages"),
        ({"messages": LONG}, "context_length_exceeded", "messages"),
        ({"messages": ASK["messages"], "logit_bias": {"999999": 1}}, "token", "logit_bias"),
        ({"messages": ASK["messages"], "temperature": -1}, "invalid", "temperature"),
        ({"messages": ASK["messages"], "stop": 3}, "invalid", "stop"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_the_protocols_shape(
    client: httpx.Client, body: dict[str, Any], code: str, param: str
) -> None:
    response = client.post("/v1/chat/completions", json=body)
    error = response.json()["error"]
    assert response.status_code == 400
    assert (error["code"], error["param"]) == (code, param)
    assert error["type"] == "invalid_request_error"


def test_an_answer_cut_inside_a_character_ends_before_it(
    server: VerifyServer, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.service.model.vocab, "piece", lambda token: "ế".encode()[:2])
    whole = client.post("/v1/chat/completions", json={**ASK, "max_tokens": 1}).json()
    assert whole["choices"][0]["message"]["content"] == ""
    assert text_of(events(client, max_tokens=1)) == ""


def test_the_newer_name_of_the_limit_holds_and_outranks_the_older(
    client: httpx.Client,
) -> None:
    for limits in ({"max_tokens": 30, "max_completion_tokens": 5}, {"max_completion_tokens": 5}):
        body = {key: value for key, value in ASK.items() if key != "max_tokens"} | limits
        whole = client.post("/v1/chat/completions", json=body).json()
        assert whole["usage"]["completion_tokens"] == 5
        assert whole["choices"][0]["finish_reason"] == "length"


@pytest.fixture
def eager(server: VerifyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of life come soon."""
    monkeypatch.setattr(server.service, "limits", replace(server.service.limits, ping_s=0.02))


@pytest.mark.usefixtures("eager")
async def test_a_silent_stream_has_comments(server: VerifyServer) -> None:
    """Something on the way would close it; here nothing comes as long as another has the engine."""
    scheduler = server.service.model.scheduler
    may_go_on = threading.Event()
    held = scheduler.call(lambda: may_go_on.wait(60))
    body = {**ASK, "stream": True}
    lines = []
    try:
        async with (
            httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client,
            client.stream("POST", "/v1/chat/completions", json=body) as stream,
        ):
            async for line in stream.aiter_lines():
                lines.append(line)
                if sum(line.startswith(":") for line in lines) >= 3:
                    may_go_on.set()
    finally:
        may_go_on.set()
    assert held.result(20)
    assert lines[-2] == "data: [DONE]"
    assert {line[:1] for line in lines} == {":", "d", ""}


@pytest.mark.usefixtures("eager")
async def test_who_leaves_while_nothing_comes_is_noticed(server: VerifyServer) -> None:
    scheduler = server.service.model.scheduler
    may_go_on = threading.Event()
    scheduler.call(lambda: may_go_on.wait(60))
    try:
        async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.post("/v1/chat/completions", json=ASK, timeout=0.3)
        await asyncio.to_thread(server.wait_until, lambda: nobody_is_answered(server))
    finally:
        may_go_on.set()


def test_what_would_slow_every_token_or_swell_the_answer_is_bounded(client: httpx.Client) -> None:
    stops = client.post("/v1/chat/completions", json={**ASK, "stop": ["x"] * 65})
    assert (stops.status_code, stops.json()["error"]["code"]) == (400, "invalid")
    unknown = {f"k{i}": 1 for i in range(1000)}
    whole = client.post("/v1/chat/completions", json={**ASK, "max_tokens": 1, **unknown}).json()
    assert len(whole["notices"]) == 21
    assert whole["notices"][-1] == "980 more options are ignored"


@SAME_TEXT
@pytest.mark.parametrize(
    "unset",
    [
        *({name: None} for name in ("temperature", "top_p", "presence_penalty", "stop", "stream")),
        *({name: None} for name in ("stream_options", "frequency_penalty", "response_format")),
        {"stream_options": {"include_usage": None}},
        {"max_tokens": -1, "max_completion_tokens": 12},
        {"max_completion_tokens": -1},
    ],
    ids=str,
)
def test_what_clients_send_for_unset_is_unset(client: httpx.Client, unset: dict[str, Any]) -> None:
    plain = client.post("/v1/chat/completions", json=ASK).json()
    answered = client.post("/v1/chat/completions", json={**ASK, **unset}).json()
    assert answered["choices"] == plain["choices"]
    assert "notices" not in answered


def test_a_seed_of_minus_1_is_any(client: httpx.Client) -> None:
    asked = {**ASK, "seed": -1, "temperature": 2.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    texts = {
        client.post("/v1/chat/completions", json=asked).json()["choices"][0]["message"]["content"]
        for _ in range(3)
    }
    assert len(texts) > 1  # 12 tokens of a flat distribution over a vocabulary


def test_content_may_come_in_parts_and_an_assistants_not_at_all(client: httpx.Client) -> None:
    def tokens(*messages: dict[str, Any]) -> int:
        whole = client.post("/v1/chat/completions", json={**ASK, "messages": messages}).json()
        return int(whole["usage"]["prompt_tokens"])

    system, user = "Be brief.", {"role": "user", "content": "Count to five."}
    parts = [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]
    assert tokens({"role": "developer", "content": parts}, user) == tokens(
        {"role": "system", "content": system}, user
    )
    silent = {"role": "assistant"}
    assert tokens(user, silent, user) == tokens(user, {**silent, "content": None}, user)


def test_an_image_is_refused_by_name(client: httpx.Client) -> None:
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {}}]
    body = {**ASK, "messages": [{"role": "user", "content": parts}]}
    error = client.post("/v1/chat/completions", json=body).json()["error"]
    assert error["message"] == "messages.0: image_url is not supported: this server reads text"
    assert error["param"] == "messages"


def test_a_model_is_found_by_its_name_alone(client: httpx.Client) -> None:
    (listed,) = client.get("/v1/models").json()["data"]
    assert client.get(f"/v1/models/{listed['id']}").json() == listed
    missing = client.get("/v1/models/org/other")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


def test_a_last_message_of_the_assistant_is_continued(client: httpx.Client) -> None:
    greedy = {**ASK, "temperature": 0}
    whole = client.post("/v1/chat/completions", json={**greedy, "max_tokens": 1}).json()
    begun = {"role": "assistant", "content": whole["choices"][0]["message"]["content"]}
    after = client.post(
        "/v1/chat/completions", json={**greedy, "messages": [*QUESTION, begun]}
    ).json()
    assert after["usage"]["prompt_tokens"] == whole["usage"]["prompt_tokens"] + 1


def test_calls_of_tools_go_where_the_template_has_them(
    server: VerifyServer, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    messages = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c1", "content": "noon"},
    ]
    refused = client.post("/v1/chat/completions", json={**ASK, "messages": messages}).json()
    assert (
        refused["error"]["message"] == "the model's chat template has no place for calls of tools"
    )
    template = "{{ messages | tojson }}"
    monkeypatch.setattr(server.service.model, "chat_template", template)
    answered = client.post("/v1/chat/completions", json={**ASK, "messages": messages})
    assert answered.status_code == 200
