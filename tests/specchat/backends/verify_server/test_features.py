"""Grammars, schemas and log-probabilities of a remote target, and what is told of its passes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remote.delay_line import DelayProxy, Line
from specchat.server import service, verify
from specengine.core.errors import SamplingError
from specengine.rules import make_rule
from specengine.sampling import SamplingParams
from support.remote_chat import ask, remote_runtime
from support.verify_server import VerifyServer, slow_passes

FOX = json.dumps(
    {
        "type": "object",
        "properties": {"fox": {"type": "integer", "maximum": 99}},
        "required": ["fox"],
        "additionalProperties": False,
    }
)


async def test_an_answer_follows_a_schema_with_drafts_and_across_cuts(
    server: VerifyServer, tiny_model: Path
) -> None:
    with DelayProxy(server.url) as proxy:
        async with remote_runtime(proxy.url, tiny_model) as runtime:
            whole = await ask(runtime, grammar=FOX, max_tokens=60)
            proxy.line = Line(cut_after=700, cuts=2)
            cut = await ask(runtime, grammar=FOX, max_tokens=60)
        assert proxy.traffic.cut == 2
    assert cut.tokens == whole.tokens
    assert whole.reason == "stop"
    assert list(json.loads(whole.text)) == ["fox"]


async def test_log_probabilities_belong_to_the_tokens(
    server: VerifyServer, tiny_model: Path
) -> None:
    async with remote_runtime(server.url, tiny_model) as runtime:
        finished = await ask(runtime, logprobs=3, max_tokens=12)
    assert [told.token for told in finished.logprobs] == list(finished.tokens)
    assert all(len(told.top) == 3 and told.logprob <= 0 for told in finished.logprobs)


async def test_a_grammar_that_cannot_be_used_is_told_before_anything_is_sent(
    server: VerifyServer,
) -> None:
    with DelayProxy(server.url) as proxy:
        async with remote_runtime(proxy.url) as runtime:
            before = proxy.traffic.up
            finished = await ask(runtime, grammar="root ::= (")
            assert proxy.traffic.up == before
    assert (finished.reason, finished.tokens) == ("error", ())
    assert "grammar cannot be used" in str(finished.error)


async def test_a_rule_that_a_server_has_not_is_told_before_anything_is_sent(
    server: VerifyServer,
) -> None:
    others = ("block", "token", "typical")
    with DelayProxy(server.url) as proxy:
        async with remote_runtime(proxy.url) as runtime:
            before = proxy.traffic.up
            errors = {name: (await ask(runtime, rule=name)).error for name in ("greedy", *others)}
            assert proxy.traffic.up == before
    with pytest.raises(SamplingError) as of_a_local_target:
        make_rule("greedy", SamplingParams(temperature=0.7))
    assert errors.pop("greedy") == str(of_a_local_target.value)
    only = "a target on a verify server has the rule coupled"
    assert errors == {name: f"{only}, not {name}" for name in others}


async def test_a_server_without_a_feature_is_named(
    server: VerifyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "FEATURES", ())
    async with remote_runtime(server.url) as runtime:
        grammar = await ask(runtime, grammar=FOX)
        logprobs = await ask(runtime, logprobs=1)
    assert grammar.error == "--grammar: this server is too old for one, and for a --json-schema"
    assert logprobs.error == "--logprobs: this server is too old for it"


async def test_what_the_server_tells_of_its_passes_is_counted_and_nothing_is_made_up(
    server: VerifyServer, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with remote_runtime(server.url) as runtime:
        alone = (await ask(runtime)).stats
    assert alone.verify_s is not None
    assert alone.verify_s > 0
    assert alone.plain_tokens_per_s == alone.tokens_per_s
    assert alone.target_passes == alone.completion_tokens - 1
    assert alone.overhead_s is None
    tell = verify._as_json
    monkeypatch.setattr(verify, "_as_json", lambda event: {**tell(event), "pass_us": None})
    async with remote_runtime(server.url, tiny_model) as runtime:
        with slow_passes():
            drafted = (await ask(runtime)).stats
    assert drafted.drafted > 0
    assert (drafted.verify_s, drafted.plain_tokens_per_s) == (None, None)
