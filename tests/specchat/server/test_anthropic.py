"""Anthropic's messages protocol, as other programs speak it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from support.smollm import UNENDING
from support.verify_server import VerifyServer

PATH = "/v1/messages"
QUESTION = {"role": "user", "content": "Count to five."}
ASK: dict[str, Any] = {
    **{"model": "tiny", "max_tokens": 16, "messages": [QUESTION], "system": "Be brief."},
    **{"seed": 3, "logit_bias": {str(token): bias for token, bias in UNENDING.items()}},
}


def test_the_answer_is_that_of_the_other_protocol(client: httpx.Client) -> None:
    message = client.post(PATH, json=ASK).json()
    system = {"role": "system", "content": "Be brief."}
    chat = {**ASK, "messages": [system, QUESTION]}
    del chat["system"]
    client.post("/v1/chat/completions", json=chat)
    again = client.post(PATH, json=ASK).json()
    other = client.post("/v1/chat/completions", json=chat).json()
    assert message["content"][0]["type"] == "text"
    assert again["content"][0]["text"] == other["choices"][0]["message"]["content"] != ""
    assert (message["stop_reason"], message["stop_sequence"]) == ("max_tokens", None)
    usage = again["usage"]
    read = other["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert usage["input_tokens"] == other["usage"]["prompt_tokens"] - read
    assert (usage["cache_read_input_tokens"], usage["output_tokens"]) == (read, 16)


@pytest.mark.usefixtures("smollm_step")
def test_a_stream_has_the_text_of_the_message(client: httpx.Client) -> None:
    client.post(PATH, json=ASK)
    whole = client.post(PATH, json=ASK).json()
    response = client.post(PATH, json={**ASK, "stream": True})
    events = [event.split("\n") for event in response.text.strip().split("\n\n")]
    told = [json.loads(data.removeprefix("data: ")) for _, data in events]
    kinds = [event["type"] for event in told]
    assert [name.removeprefix("event: ") for name, _ in events] == kinds
    assert [kind for kind in kinds if kind != "content_block_delta"] == [
        *("message_start", "content_block_start", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]
    text = "".join(e["delta"]["text"] for e in told if e["type"] == "content_block_delta")
    assert text == whole["content"][0]["text"]
    assert told[-2]["usage"] == whole["usage"]
    assert told[-2]["delta"] == {"stop_reason": "max_tokens", "stop_sequence": None}


@pytest.mark.usefixtures("smollm_step")
def test_the_stop_sequence_that_was_met_is_told(client: httpx.Client) -> None:
    text = client.post(PATH, json=ASK).json()["content"][0]["text"]
    stop = text[4:7]
    message = client.post(PATH, json={**ASK, "stop_sequences": ["zzz", stop]}).json()
    assert message["content"][0]["text"] == text[: text.index(stop)]
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", stop)


def test_tokens_are_counted_as_they_would_be_read(client: httpx.Client) -> None:
    parts = [
        {"type": "text", "text": "Be ", "cache_control": {}},
        {"type": "text", "text": "brief."},
    ]
    body = {"model": "tiny", "messages": [QUESTION], "system": parts}
    counted = client.post(f"{PATH}/count_tokens", json=body).json()["input_tokens"]
    usage = client.post(PATH, json={**ASK, "system": "Be brief."}).json()["usage"]
    assert counted == usage["input_tokens"] + usage["cache_read_input_tokens"]


def test_calls_and_results_of_tools_become_turns(
    server: VerifyServer, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = {"type": "tool_use", "id": "c1", "name": "now", "input": {"zone": "UTC"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [part("noon")]}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
    messages = [
        QUESTION,
        {"role": "assistant", "content": [thought, part("Let me see."), use]},
        {"role": "user", "content": [result, part("And?")]},
    ]
    monkeypatch.setattr(server.service.model, "chat_template", "{{ messages | tojson }}")
    read: list[str] = []
    tokenize = server.service.model.vocab.tokenize
    monkeypatch.setattr(
        server.service.model.vocab,
        "tokenize",
        lambda text, **how: read.append(text) or tokenize(text, **how),  # type: ignore[func-returns-value]
    )
    assert client.post(f"{PATH}/count_tokens", json={"messages": messages}).status_code == 200
    turns = json.loads("".join(read))
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool", "user"]
    assert turns[1]["content"] == "Let me see."
    assert turns[1]["tool_calls"][0]["function"] == {"name": "now", "arguments": {"zone": "UTC"}}
    assert (turns[2]["tool_call_id"], turns[2]["content"]) == ("c1", "noon")


def part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("changes", "status", "kind", "message"),
    [
        ({"max_tokens": None}, 400, "invalid_request_error", "max_tokens: Field required"),
        ({"tools": [{"name": "f"}]}, 400, "invalid_request_error", "tools is not supported"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
            *(400, "invalid_request_error", "image is not supported"),
        ),
        (
            {"messages": [{"role": "user", "content": "long " * 600}]},
            *(400, "invalid_request_error", "prompt is too long: "),
        ),
    ],
)
def test_refusals_have_the_protocols_shape(
    client: httpx.Client, changes: dict[str, Any], status: int, kind: str, message: str
) -> None:
    response = client.post(PATH, json={**ASK, **changes})
    told = response.json()
    assert (response.status_code, told["type"], told["error"]["type"]) == (status, "error", kind)
    assert message in told["error"]["message"]
