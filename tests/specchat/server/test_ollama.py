"""Ollama's protocol, as other programs speak it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import httpx
import pytest

from specchat.version import __version__
from support.smollm import UNENDING
from support.verify_server import VerifyServer

QUESTION = {"role": "user", "content": "Count to five."}
BIAS = {str(token): bias for token, bias in UNENDING.items()}
OPTIONS = {"num_predict": 16, "seed": 3, "temperature": 0.5, "num_ctx": 512}
CHAT: dict[str, Any] = {
    **{"model": "tiny:latest", "messages": [QUESTION], "logit_bias": BIAS},
    "options": OPTIONS,
}
GENERATE = {**CHAT, "prompt": QUESTION["content"]}
del GENERATE["messages"]


def whole(client: httpx.Client, path: str, body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = client.post(path, json={**body, "stream": False, **changes}).json()
    return told


@pytest.mark.usefixtures("smollm_step")
def test_the_answer_is_that_of_the_other_protocols(client: httpx.Client) -> None:
    chat = {"messages": [QUESTION], "max_tokens": 16, "seed": 3, "temperature": 0.5}
    other = client.post("/v1/chat/completions", json={**chat, "logit_bias": BIAS}).json()
    text = other["choices"][0]["message"]["content"]
    message = whole(client, "/api/chat", CHAT)
    assert message["message"] == {"role": "assistant", "content": text}
    assert whole(client, "/api/generate", GENERATE)["response"] == text != ""
    assert (message["done"], message["done_reason"], message["eval_count"]) == (True, "length", 16)
    assert message["prompt_eval_count"] == other["usage"]["prompt_tokens"]
    parts = message["prompt_eval_duration"] + message["eval_duration"]
    assert 0 < parts <= message["total_duration"]


@pytest.mark.usefixtures("smollm_step")
@pytest.mark.parametrize(("path", "body"), [("/api/chat", CHAT), ("/api/generate", GENERATE)])
def test_answers_come_in_lines_unless_asked_otherwise(
    client: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    def text(told: dict[str, Any]) -> str:
        return str(told["message"]["content"] if "message" in told else told["response"])

    *lines, last = [json.loads(line) for line in client.post(path, json=body).text.splitlines()]
    assert {line["done"] for line in lines} == {False}
    assert last["done"] is True
    assert "".join(map(text, lines)) == text(whole(client, path, body)) != ""
    assert last["eval_count"] == 16
    assert [notice.partition(":")[0] for notice in last["notices"]] == ["num_ctx"]


def test_log_probabilities_are_told(client: httpx.Client) -> None:
    told = whole(client, "/api/chat", CHAT, logprobs=True, top_logprobs=2)
    spelled = b"".join(bytes(token["bytes"]) for token in told["logprobs"])
    assert spelled.decode(errors="ignore") == told["message"]["content"]
    assert {len(token["top_logprobs"]) for token in told["logprobs"]} == {2}
    body = {**GENERATE, "logprobs": True}
    lines = [json.loads(line) for line in client.post("/api/generate", json=body).text.splitlines()]
    assert sum(len(line.get("logprobs", ())) for line in lines) == 16


def test_a_format_is_held_to(client: httpx.Client) -> None:
    schema = {
        **{"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]},
        "additionalProperties": False,
    }
    asked = {**CHAT, "options": {"num_predict": 80}}
    answer = whole(client, "/api/chat", asked, format=schema, logit_bias={})
    assert json.loads(answer["message"]["content"])["n"] in (1, 2)
    asked["options"] = {"num_predict": 3}
    begun = whole(client, "/api/chat", asked, format="json")["message"]["content"]
    assert begun.startswith("{")


def test_a_raw_prompt_has_its_control_tokens_itself(
    server: VerifyServer, client: httpx.Client
) -> None:
    prompt = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    count = whole(client, "/api/generate", GENERATE, prompt=prompt, raw=True)["prompt_eval_count"]
    vocab = server.service.model.vocab
    assert count == len(vocab.tokenize(prompt, bos=True, special=True))
    assert count < len(vocab.tokenize(prompt, bos=True))


def test_without_a_question_the_model_is_ready(client: httpx.Client) -> None:
    for path in ("/api/chat", "/api/generate"):
        told = client.post(path, json={"model": "tiny"}).json()
        assert (told["done"], told["done_reason"]) == (True, "load")


def test_the_model_is_described(client: httpx.Client) -> None:
    assert client.get("/api/version").json() == {"version": __version__}
    (model,) = client.get("/api/tags").json()["models"]
    assert model["name"] == model["model"] == "tiny"
    assert model["details"]["family"] == "llama"
    assert model["details"]["parameter_size"] == "0.13B"
    shown = client.post("/api/show", json={"model": "tiny"}).json()
    assert shown["details"] == model["details"]
    assert shown["capabilities"] == ["completion"]
    assert shown["model_info"]["llama.context_length"] == 512
    assert "<|im_start|>" in shown["template"]


def test_what_json_has_no_word_for_is_left_out(
    server: VerifyServer, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd: dict[str, Any] = {"general.odd": math.inf, "general.name": "caf\udce9"}
    gguf = replace(server.service.gguf, metadata=odd)
    monkeypatch.setattr(server.service, "gguf", gguf)
    info = client.post("/api/show", json={"model": "tiny"}).json()["model_info"]
    assert "general.odd" not in info
    assert info["general.name"] == "caf\udce9"


@pytest.mark.parametrize(
    ("changes", "status", "message"),
    [
        ({"tools": [{"type": "function"}]}, 400, "tools is not supported by this server"),
        ({"think": True}, 400, "think is not supported by this server"),
        ({"options": {"mirostat": 2}}, 400, "mirostat is not supported by this server"),
        ({"options": {"temperature": -1}}, 400, "temperature"),
        ({"messages": [{**QUESTION, "images": ["aGk="]}]}, 400, "images: not supported"),
        ({"messages": [{"role": "user", "content": "long " * 600}]}, 413, "no room for an answer"),
        ({"options": 3}, 400, "options"),
    ],
)
def test_refusals_have_the_protocols_shape(
    client: httpx.Client, changes: dict[str, Any], status: int, message: str
) -> None:
    response = client.post("/api/chat", json={**CHAT, **changes})
    assert response.status_code == status
    assert message in response.json()["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 200),  # curl -d
        ({"Content-Type": "text/plain", "Origin": "http://a"}, 415),
        ({"Content-Type": "text/plain", "Sec-Fetch-Site": "cross-site"}, 415),
    ],
)
def test_a_body_needs_no_type_unless_a_web_page_sent_it(
    client: httpx.Client, headers: dict[str, str], status: int
) -> None:
    body = json.dumps({"model": "tiny"}).encode()
    assert client.post("/api/chat", content=body, headers=headers).status_code == status
