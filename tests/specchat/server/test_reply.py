"""What an answer of the OpenAI protocol tells beside its text, and what makes it sooner."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.remote_chat import QUESTION, ask, remote_runtime
from support.smollm import UNENDING
from support.verify_server import VerifyServer

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ASK: dict[str, Any] = {
    "messages": [{"role": "system", "content": ""}, {"role": "user", "content": QUESTION}],
    **{"max_tokens": 40, "seed": 5, "temperature": 0.7},
    "logit_bias": {str(token): bias for token, bias in UNENDING.items()},
}
SAME_TEXT = pytest.mark.usefixtures("smollm_step")


def answer(client: httpx.Client, **changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = client.post(CHAT, json={**ASK, **changes}).json()
    return whole


def text(whole: dict[str, Any], choice: int = 0) -> str:
    content: str = whole["choices"][choice]["message"]["content"]
    return content


def chunks(client: httpx.Client, path: str = CHAT, **body: Any) -> list[dict[str, Any]]:
    response = client.post(path, json={**body, "stream": True})
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


@SAME_TEXT
async def test_the_text_for_a_seed_is_that_of_ask(
    tiny_model: Path, server: VerifyServer, client: httpx.Client
) -> None:
    async with remote_runtime(tiny_model) as runtime:
        here = await ask(runtime, reproducible=True, drafting=False)
    assert text(answer(client)) == here.text != ""


def test_a_conversation_goes_on_from_the_cache(client: httpx.Client) -> None:
    first = answer(client)
    said = {"role": "assistant", "content": text(first)}
    more = [*ASK["messages"], said, {"role": "user", "content": "And then?"}]
    usage = answer(client, messages=more)["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert first["usage"]["prompt_tokens"] <= cached < usage["prompt_tokens"]


@SAME_TEXT
def test_a_prediction_saves_passes_and_changes_nothing(
    server: VerifyServer, client: httpx.Client
) -> None:
    answer(client)
    scheduler = server.service.model.scheduler
    before = scheduler.passes
    plain = answer(client)
    without, before = scheduler.passes - before, scheduler.passes
    predicted = answer(client, prediction={"type": "content", "content": text(plain)})
    assert text(predicted) == text(plain)
    assert scheduler.passes - before < without
    details = predicted["usage"]["completion_tokens_details"]
    assert 0 < details["accepted_prediction_tokens"] <= 40
    nothing = {"accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}
    assert plain["usage"]["completion_tokens_details"] == nothing
    wrong = answer(client, prediction={"type": "content", "content": [part("No."), part("Yes.")]})
    assert text(wrong) == text(plain)


def part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@SAME_TEXT
def test_several_answers_are_those_of_the_seeds_that_follow(client: httpx.Client) -> None:
    several = answer(client, n=3)
    alone = [answer(client, seed=seed) for seed in (5, 6, 7)]
    assert [text(several, i) for i in range(3)] == list(map(text, alone))
    assert [choice["index"] for choice in several["choices"]] == [0, 1, 2]
    assert several["usage"]["completion_tokens"] == 120
    assert several["usage"]["prompt_tokens"] == alone[0]["usage"]["prompt_tokens"]
    streamed = ["", "", ""]
    for chunk in chunks(client, **ASK, n=3):
        for choice in chunk["choices"]:
            streamed[choice["index"]] += choice["delta"].get("content", "")
    assert streamed == list(map(text, alone))


@SAME_TEXT
def test_log_probabilities_are_told_token_by_token(client: httpx.Client) -> None:
    greedy: dict[str, Any] = {
        **ASK,
        "temperature": 0,
        "max_tokens": 6,
        "logit_bias": {},
        "logprobs": True,
    }
    whole = client.post(CHAT, json={**greedy, "top_logprobs": 2}).json()
    told = whole["choices"][0]["logprobs"]["content"]
    spelled = b"".join(bytes(token["bytes"]) for token in told)
    assert spelled.decode(errors="ignore") == text(whole)
    for token in told:
        assert bytes(token["bytes"]).decode(errors="replace") == token["token"]
        best, second = token["top_logprobs"]
        assert best["token"] == token["token"]
        assert best["logprob"] == token["logprob"] >= second["logprob"]
        assert math.exp(best["logprob"]) + math.exp(second["logprob"]) <= 1.0001
    streamed = [
        choice["logprobs"]["content"]
        for chunk in chunks(client, **greedy)
        for choice in chunk["choices"]
        if "logprobs" in choice
    ]
    assert len([token for part in streamed for token in part]) == len(told)
    assert all(token["top_logprobs"] == [] for part in streamed for token in part)
    assert "logprobs" not in answer(client)["choices"][0]


@SAME_TEXT
def test_tokens_behind_a_stop_string_have_no_log_probabilities(client: httpx.Client) -> None:
    stop = text(answer(client))[8:11]
    whole = answer(client, stop=stop, logprobs=True)
    told = whole["choices"][0]["logprobs"]["content"]
    spelled = b"".join(bytes(token["bytes"]) for token in told)
    assert text(whole).startswith(spelled.decode(errors="ignore"))
    assert len(told) < whole["usage"]["completion_tokens"]


@SAME_TEXT
def test_text_is_completed_from_text_or_ids(server: VerifyServer, client: httpx.Client) -> None:
    prompt = "The three primary colours are"
    ids = server.service.model.vocab.tokenize(prompt, bos=True)
    bias = {"logit_bias": ASK["logit_bias"], "seed": 1, "logprobs": 1}
    both = client.post(TEXT, json={**bias, "prompt": [prompt, ids], "n": 2}).json()
    assert both["object"] == "text_completion"
    texts = [choice["text"] for choice in both["choices"]]
    assert texts[0] == texts[2]
    assert texts[1] == texts[3]
    usage = both["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (2 * len(ids), 4 * 16)
    assert {choice["finish_reason"] for choice in both["choices"]} == {"length"}
    told = both["choices"][0]["logprobs"]
    assert len(told["tokens"]) == len(told["token_logprobs"]) == len(told["top_logprobs"]) == 16
    streamed = chunks(client, TEXT, **bias, prompt=ids, stream_options={"include_usage": True})
    parts = [choice["text"] for chunk in streamed for choice in chunk["choices"]]
    assert "".join(parts) == texts[0]
    assert streamed[-1]["usage"]["completion_tokens"] == 16


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"prompt": "a", "echo": True}, "unsupported", "echo"),
        ({"prompt": "a", "suffix": "b"}, "unsupported", "suffix"),
        ({"prompt": "a", "best_of": 3}, "unsupported", "best_of"),
        ({"prompt": [10**6]}, "token", "prompt"),
        ({"prompt": []}, "invalid", "prompt"),
        ({"prompt": "long " * 600}, "context_length_exceeded", "prompt"),
        ({}, "invalid", "prompt"),
    ],
)
def test_a_text_that_cannot_be_completed_is_refused(
    client: httpx.Client, body: dict[str, Any], code: str, param: str
) -> None:
    response = client.post(TEXT, json=body)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (400, code, param)


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/embeddings"])
def test_what_there_is_not_is_refused_by_name(client: httpx.Client, path: str) -> None:
    response = client.post(path, json={"input": "Hi"})
    assert response.status_code == 404
    assert path in response.json()["error"]["message"]
