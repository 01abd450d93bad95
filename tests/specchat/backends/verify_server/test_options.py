"""Every option of an answer, at every kind of target."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.runtime import Runtime
from specchat.backends.scoring import pair as scoring_pair
from specchat.backends.verify_server import pair as remote_pair
from specengine.chat.chat_template import Turn
from specengine.load import pair
from specengine.load.drafting import Drafting
from specengine.sampling import SamplingParams
from support.chat_stand_in import Reply, chat_stand_in, events
from support.remote_chat import ask, ended, remote_runtime
from support.served_models import Babbler, serving
from support.spy import spied
from support.verify_server import VerifyServer

TURNS = [Turn("user", "Count.")]
OPTIONS: dict[str, Any] = {
    **{"max_tokens": 2, "stop": ("zzz",), "rule": "block", "draft_max": 3, "draft_length": 2},
    **{"drafting": False, "raw": True, "reproducible": True, "logprobs": 2},
    **{"grammar": "root ::= [a-z ]*", "think": "off"},
}
SAMPLING: dict[str, Any] = {
    **{"temperature": 0.3, "top_k": 7, "top_p": 0.5, "min_p": 0.2, "typical_p": 0.5, "seed": 6},
    **{"repeat_penalty": 1.2, "repeat_last_n": 3, "frequency_penalty": 0.5},
    **{"presence_penalty": 0.5, "logit_bias": {5: 1.0}},
}
NO_OPTIONS = {"sampling", "drafter", "inspect", "chat_id", "begun"}  # what no person sets
UNTRUNCATED = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}


def test_no_option_is_left_out_here() -> None:
    assert set(OPTIONS) == {f.name for f in fields(AnswerOptions)} - NO_OPTIONS
    assert set(SAMPLING) == set(SamplingParams.model_fields)


class Kind(NamedTuple):
    """A kind of target."""

    opened: Callable[..., AbstractAsyncContextManager[tuple[Runtime, list[Any]]]]
    """A runtime, and the growing list of all that is asked of what answers."""
    base: Mapping[str, Any] = MappingProxyType({})
    """The sampling settings that are asked for besides."""


@asynccontextmanager
async def local(tiny_model: Path, patch: pytest.MonkeyPatch, **_: Any) -> AsyncIterator[Any]:
    names = ("make_rule", "Grammar", "LocalTarget", "generate", "Transforms", "with_length")
    async with remote_runtime(tiny_model, "lookup") as runtime:
        yield runtime, [spied(patch, pair, *names), spied(patch, pair.Pair, "_pad_passes")]


@asynccontextmanager
async def verify_server(
    tiny_model: Path, patch: pytest.MonkeyPatch, server: VerifyServer
) -> AsyncIterator[Any]:
    patch.setattr(server.service.model, "step", None)  # as where no width of passes is stable
    names = ("make_rule", "Grammar", "Request", "answer_with_hints")
    async with remote_runtime(server.url, "lookup") as runtime:
        yield runtime, [spied(patch, remote_pair, *names), spied(patch, Drafting, "drafters")]


def engine(name: str, way: str) -> Callable[..., AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def opened(tiny_model: Path, patch: pytest.MonkeyPatch, **_: Any) -> AsyncIterator[Any]:
        babbler = Babbler(tiny_model)
        try:
            with serving(babbler, name) as stand_in:
                async with remote_runtime(stand_in.url, tiny_model) as runtime:
                    stand_in.requests.clear()
                    # Only where rows are told does the rule see the settings.
                    names = ("make_rule",) if way == "rows" else ()
                    calls = spied(patch, scoring_pair, *names, "with_length", "generate")
                    yield runtime, [stand_in.requests, calls]
        finally:
            babbler.close()

    return opened


@asynccontextmanager
async def chat_server(patch: pytest.MonkeyPatch, **_: Any) -> AsyncIterator[Any]:
    with chat_stand_in(*[Reply([events("ok")])] * 99) as stand_in:
        async with remote_runtime(stand_in.url) as runtime:
            yield runtime, [stand_in.requests]


KINDS = {
    "this computer": Kind(local),
    "specchat serve": Kind(verify_server),
    "vllm, rows": Kind(engine("vllm", "rows"), {"top_k": 5}),
    "vllm, draws": Kind(engine("vllm", "draws"), UNTRUNCATED),
    "vllm, alone": Kind(engine("vllm", "alone"), {"top_k": 30}),
    "sglang, rows": Kind(engine("sglang", "rows"), {"top_k": 5}),
    "sglang, draws": Kind(engine("sglang", "draws"), UNTRUNCATED),
    "sglang, alone": Kind(engine("sglang", "alone"), {"top_k": 30}),
    "a chat server": Kind(chat_server),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_an_option_has_an_effect_or_is_refused_by_name_or_is_said(
    kind: str, tiny_model: Path, server: VerifyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, base = KINDS[kind]
    unheard = []
    async with opened(tiny_model=tiny_model, patch=monkeypatch, server=server) as (runtime, asked):
        for name, value in {**OPTIONS, **SAMPLING}.items():
            without = {"repeat_penalty": 1.2} if name == "repeat_last_n" else {}
            plain = await answer(runtime, asked, {**base, **without})
            other = await answer(runtime, asked, {**base, **without, name: value})
            pattern = name.replace("_", "[-_]")
            if kind.endswith("alone") and name in ("draft_max", "draft_length", "rule"):
                pattern = "answered alone"  # drafts that are not made are said as a whole
            named = any(re.search(pattern, line) for line in other[0])
            if not named and other[1:] == plain[1:]:
                unheard.append(name)
    assert unheard == []


async def answer(
    runtime: Runtime, asked: list[list[Any]], wanted: dict[str, Any]
) -> tuple[list[str], str, bool]:
    """What is said of it, all that was asked for it, and whether anything is drafted."""
    for calls in asked:
        calls.clear()
    sampling = SamplingParams(**{"seed": 5, **{k: v for k, v in wanted.items() if k in SAMPLING}})
    options: dict[str, Any] = {"max_tokens": 1, "draft_length": 4}
    options |= {k: v for k, v in wanted.items() if k in OPTIONS}
    finished = await ended(runtime, TURNS, AnswerOptions(sampling=sampling, **options))
    said = [*finished.notices, *([finished.error] if finished.error else [])]
    return said, repr(asked), options.get("drafting", True)


async def test_an_answer_that_a_server_cannot_repeat_bit_for_bit_says_so(
    server: VerifyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    notices = []
    for step in (None, 2):
        monkeypatch.setattr(server.service.model, "step", step)
        async with remote_runtime(server.url) as runtime:
            notices.append((await ask(runtime, reproducible=True, max_tokens=1)).notices)
    [said], nothing = notices
    assert "--reproducible" in said
    assert "near-ties" in said
    assert nothing == ()
