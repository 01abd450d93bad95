"""Every option that a request may bring, at every endpoint that answers."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import pytest

from specchat.models.registry import Profile
from specchat.server import reply, service
from specchat.server.chat_request import ChatCompletion
from specchat.wire.messages import Generate
from specengine.sampling import SamplingParams
from specengine.stream.transcript import Transcript
from support.spy import spied
from support.verify_server import VerifyServer

REFUSED = ChatCompletion.refused
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "seed": 3}
ASK_ALL = {**ASK, "repeat_penalty": 1.1, "stream": True}
SAMPLING: dict[str, Any] = {
    **{"temperature": 0.3, "top_k": 7, "top_p": 0.5, "min_p": 0.2, "typical_p": 0.5},
    **{"repeat_penalty": 1.2, "repeat_last_n": 3, "frequency_penalty": 0.5},
    **{"presence_penalty": 0.5, "logit_bias": {"5": 1.0}, "seed": 4},
}
CHAT: dict[str, Any] = {
    **SAMPLING,
    "messages": [{"role": "user", "content": "Ho"}],
    **{"model": "gpt-4", "stream": False, "stream_options": {"include_usage": True}},
    **{"max_tokens": 1, "max_completion_tokens": 1, "stop": ["zzz"]},
    **{"grammar": "root ::= [a]", "json_schema": {"type": "object"}},
    "response_format": {"type": "json_object"},
    **{"logprobs": True, "top_logprobs": 3, "n": 2},
    "prediction": {"type": "content", "content": "Hi, I am"},
    # What cannot be had.
    **{"audio": {"voice": "x"}, "function_call": {"name": "f"}, "functions": [{"name": "f"}]},
    **{"mirostat": 2, "modalities": ["audio"], "reasoning_effort": "high"},
    "repetition_penalty": 1.1,
    **{"tool_choice": "required", "tools": [{"type": "function"}], "verbosity": "low"},
    "web_search_options": {},
    # What changes nothing.
    **{"metadata": {}, "parallel_tool_calls": True, "prompt_cache_key": "x"},
    **{"safety_identifier": "x", "service_tier": "auto", "store": True, "user": "x", "new": 1},
}
GENERATE: dict[str, Any] = {
    **{"base": 1, "base_hash": "1" * 32, "append": [1, 2], "sampling": {"top_k": 2}, "seed": 4},
    **{"max_tokens": 1, "patience_ms": 5, "grammar": 'root ::= "b"', "grammar_start": 2},
    "logprobs": 1,
}


def test_no_option_is_left_out_here() -> None:
    assert set(ChatCompletion.model_fields) | set(REFUSED) < set(CHAT)
    assert set(GENERATE) == set(Generate.model_fields)
    assert set(SAMPLING) == set(SamplingParams.model_fields)


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    """What is asked for without any option, once a test has found it out."""
    return {}


@pytest.mark.parametrize("option", CHAT)
def test_a_chats_option_has_an_effect_or_is_refused_by_name_or_is_said(
    option: str, client: httpx.Client, known: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = spied(monkeypatch, service, "Generation", "Grammar")
    calls = spied(monkeypatch, reply, "Transcript", "AnswerText")

    def ask(body: dict[str, Any]) -> tuple[httpx.Response, Any]:
        made.clear()
        calls.clear()
        response = client.post("/v1/chat/completions", json=body)
        kind = response.headers["content-type"], "usage" in response.text
        return response, (kind, without_session([*calls, *made]))

    if "chat" not in known:
        known["chat"] = ask(ASK_ALL)[1]
    response, asked = ask({**ASK_ALL, option: CHAT[option]})
    if response.status_code == 400:
        error = response.json()["error"]
        assert (error["code"], error["param"]) == ("unsupported", option)
        assert option in error["message"]
    elif not any(option in line for line in notices(response)):
        assert asked != known["chat"]


def without_session(calls: list[Any]) -> str:
    return repr([(name, args[name == "Generation" :], further) for name, args, further in calls])


def notices(response: httpx.Response) -> list[str]:
    """Of a whole answer, or of the events of one."""
    if response.headers["content-type"].startswith("application/json"):
        told = [response.json()]
    else:
        lines = [line[6:] for line in response.text.splitlines() if line]
        told = [json.loads(line) for line in lines if line != "[DONE]"]
    return [notice for part in told for notice in part.get("notices", [])]


@pytest.mark.parametrize("option", sorted(REFUSED))
def test_an_option_that_asks_for_nothing_is_no_reason_to_refuse(option: str) -> None:
    for value in (None, *REFUSED[option]):
        body = json.dumps({**ASK, option: value})
        assert ChatCompletion.model_validate_json(body).check("tiny") == []


def test_what_a_chat_leaves_open_is_the_served_profiles(
    server: VerifyServer, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*before: dict[str, str], **further: Any) -> tuple[int, dict[str, Any]]:
        calls = spied(monkeypatch, service, "Generation")
        body = {**ASK, "messages": [*before, *ASK["messages"]], **further}
        usage = client.post("/v1/chat/completions", json=body).json()["usage"]
        return usage["prompt_tokens"], calls[0][1][2]

    brief = {"role": "system", "content": "Be brief."}
    long = {"role": "system", "content": "Be " * 30}
    (n_plain, plain), (n_brief, _), (n_long, _) = asked(), asked(brief), asked(long)
    assert len({n_plain, n_brief, n_long}) == 3
    settings = SamplingParams(top_k=3, logit_bias={7: -math.inf})
    profile = Profile(
        name="own", description="", target="tiny", system=brief["content"], sampling=settings
    )
    monkeypatch.setattr(server.service, "profile", profile)
    assert asked() == (n_brief, plain | {"top_k": 3, "logit_bias": {7: -math.inf}})
    assert asked(long, top_k=5, logit_bias={"8": 1}) == (
        n_long,
        plain | {"top_k": 5, "logit_bias": {8: 1.0}},
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"logit_bias": {"999999": 1}},
        {"logit_bias": {"5": 1e9}},
        {"presence_penalty": 1e131},
        {"min_p": 2},
        {"top_k": -1},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any], client: httpx.Client) -> None:
    response = client.post("/v1/chat/completions", json={**ASK, **wrong})
    assert response.status_code == 400


@pytest.mark.parametrize("option", [*GENERATE, *(f"sampling.{name}" for name in (*SAMPLING, "x"))])
def test_an_option_of_generate_has_an_effect_or_is_refused_by_name(
    option: str, client: httpx.Client, known: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = spied(monkeypatch, service, "Generation")
    calls = spied(monkeypatch, service, "Grammar")
    new = client.post("/specchat/v1/sessions", json={"protocol": {"min": 1, "max": 1}}).json()

    def ask(body: dict[str, Any]) -> tuple[httpx.Response, str]:
        made.clear()
        calls.clear()
        response = client.post(f"/specchat/v1/sessions/{new['session']}/generate", json=body)
        return response, without_session([*calls, *made])

    sampling: dict[str, Any] = {"repeat_penalty": 1.1}
    base = {"base": 0, "base_hash": Transcript().hash.hex(), "append": [1, 2, 3], "seed": 3}
    base |= {"max_tokens": 2, "grammar": "root ::= [a-z]+", "sampling": sampling}
    if "generate" not in known:
        known["generate"] = ask(base)[1]
    name, _, setting = option.partition(".")
    value = {**sampling, setting: SAMPLING.get(setting, 1)} if setting else GENERATE[name]
    response, asked = ask({**base, name: value})
    if response.status_code in (400, 409):
        assert (setting or "transcript") in response.json()["error"]["message"]
    else:
        assert asked != known["generate"]


def test_a_seed_among_the_sampling_settings_is_refused_since_it_would_be_overruled(
    client: httpx.Client,
) -> None:
    new = client.post("/specchat/v1/sessions", json={"protocol": {"min": 1, "max": 1}}).json()
    body = {"base": 0, "base_hash": Transcript().hash.hex(), "append": [1], "seed": 3}
    response = client.post(
        f"/specchat/v1/sessions/{new['session']}/generate", json={**body, "sampling": {"seed": 4}}
    )
    assert response.status_code == 400
    assert "seed is a field of the request, not of sampling" in response.json()["error"]["message"]
