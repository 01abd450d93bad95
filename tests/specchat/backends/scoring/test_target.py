"""Drafts verified through SGLang's and vLLM's interfaces: the target's text, whatever is drafted.

The stand-ins' model is a small random one, whose own text is known exactly.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pytest

from specchat.backends.scoring.client import ScoringClient
from specchat.backends.scoring.dialect import Dialect, Events, ServerToken
from specchat.backends.scoring.sglang import SGLang
from specchat.backends.scoring.target import ScoringTarget, Verification
from specchat.backends.scoring.vllm import VLLM
from specchat.wire.address import parse_address
from specchat.wire.errors import TryAgainError
from specchat.wire.network import NetworkThread
from specengine.cache.context import Context
from specengine.cache.costs import PassCosts
from specengine.checks.chi_square import chi_square
from specengine.control.controller import FixedDraftLength
from specengine.core.cancel import AbortFlag
from specengine.core.distribution import Distribution
from specengine.core.draft import Draft
from specengine.core.errors import BackendError
from specengine.core.events import Finished
from specengine.core.tokens import as_tokens
from specengine.drafters.bridge import SameIds
from specengine.drafters.model import ModelDrafter
from specengine.loop.generate import generate
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
from specengine.stream.scoring import ScoresError, TopN, way_to_verify
from support.fakes import FakeKVCache, FakeVocab, Model, greedy_continuation, markov
from support.scoring_stand_ins import ScoringStandIn, running

N_VOCAB = 24
PROMPT = [3, 1, 4, 1, 5]
TARGET = markov(N_VOCAB, 1)
GREEDY = SamplingParams(temperature=0)
RAW = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
ENGINES = ["sglang", "sglang incremental", "vllm", "vllm scale-out"]


def blend(wrong: float) -> Model:
    """A drafter that agrees with the target the less, the larger `wrong` is."""
    other = markov(N_VOCAB, 2)
    return lambda tokens: TARGET(tokens) + np.float32(wrong) * other(tokens)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def dialect_of(engine: str) -> Dialect:
    if engine.startswith("sglang"):
        return SGLang()
    return VLLM("big", scale_out="scale-out" in engine)


@contextmanager
def target_of(
    engine: str,
    network: NetworkThread,
    sampling: SamplingParams,
    *,
    eog: tuple[int, ...] = (),
    **options: Any,
) -> Iterator[tuple[ScoringTarget, ScoringStandIn]]:
    """A target with room for 30 tokens, and its server: a `ScoringStandIn` with these `options`."""

    def rows(tokens: list[int], last: int) -> Any:
        return np.stack([TARGET(tokens[: len(tokens) - i]) for i in reversed(range(last))])

    vocab = FakeVocab(N_VOCAB, eog)
    stand_in = ScoringStandIn(
        rows,
        vocab.tokenize,
        lambda messages: 0,
        incremental="incremental" in engine,
        scale_out="scale-out" in engine,
        **options,
    )
    way = way_to_verify(sampling, 20)
    rule = make_rule("token" if way == "draws" else "coupled", sampling)
    top_n = {"rows": max(5, sampling.top_k if sampling.temperature else 5), "draws": 0}[way]
    how = Verification(way, sampling, rule, top_n)
    with running(stand_in, engine.split()[0]):
        client = ScoringClient(parse_address(stand_in.url), None, dialect_of(engine))
        until = len(PROMPT) + 30
        target = ScoringTarget(
            client, network, vocab, 256, how, PassCosts(), AbortFlag(), until=until
        )
        with closing(target):
            yield target, stand_in
        network.call(client.close())


def run(
    target: ScoringTarget, draft: Model | None, sampling: SamplingParams, n: int = 30, k: int = 4
) -> Finished:
    drafters = []
    if draft is not None:
        rule = target._how.rule
        context = Context(FakeKVCache(draft, N_VOCAB))
        bridge = SameIds(target.vocab, N_VOCAB)
        drafters = [ModelDrafter("fake", bridge, context, Transforms(sampling), rule)]
    *_, finished = generate(target, drafters, FixedDraftLength(k), PROMPT, max_tokens=n)
    assert isinstance(finished, Finished)
    assert finished.error is None
    return finished


@pytest.mark.parametrize("engine", ENGINES[:-1])  # scale-out tells no most probable tokens
@pytest.mark.parametrize("wrong", [0.0, 0.3, 3.0])
def test_greedy_text_is_the_targets(engine: str, network: NetworkThread, wrong: float) -> None:
    expected = greedy_continuation(TARGET, PROMPT, 30)
    with target_of(engine, network, GREEDY) as (target, _):
        finished = run(target, blend(wrong), GREEDY)
    assert list(finished.tokens) == expected
    stats = finished.stats
    assert (stats.acceptance_rate == 1) == (wrong == 0)
    if wrong == 0:
        assert stats.target_passes == 6  # 29 tokens after the first, five in each round
    assert target.doubt is None


def test_without_drafts_one_stream_gives_the_whole_text(
    engine: str, network: NetworkThread
) -> None:
    with target_of(engine, network, GREEDY) as (target, stand_in):
        finished = run(target, None, GREEDY)
    assert list(finished.tokens) == greedy_continuation(TARGET, PROMPT, 30)
    assert len(stand_in.requests) == 1


def test_an_end_token_ends_the_answer_also_within_a_draft(
    engine: str, network: NetworkThread
) -> None:
    text = greedy_continuation(TARGET, PROMPT, 30)
    end = text[12]
    with target_of(engine, network, GREEDY, eog=(end,), eos=end) as (target, _):
        drafted = run(target, blend(0.0), GREEDY)
    with target_of(engine, network, GREEDY, eog=(end,), eos=end) as (target, _):
        alone = run(target, None, GREEDY)
    expected = text[: text.index(end)]
    assert list(drafted.tokens) == list(alone.tokens) == expected
    assert drafted.reason == alone.reason == "stop"


def test_a_seed_gives_the_same_text_with_and_without_drafts(
    engine: str, network: NetworkThread
) -> None:
    sampling = SamplingParams(temperature=0.9, top_k=20, top_p=0.97, min_p=0.0, seed=11)
    texts = []
    for draft in (None, blend(0.0), blend(0.5)):
        with target_of(engine, network, sampling) as (target, _):
            texts.append(run(target, draft, sampling).tokens)
    assert texts[0] == texts[1] == texts[2]
    assert len(set(texts[0])) > 5


@pytest.mark.parametrize("engine", ["sglang", "vllm", "vllm scale-out"])
@pytest.mark.parametrize(("wrong", "n"), [(0.0, 20), (0.8, 250)])
def test_draws_at_temperature_1_follow_the_target(
    engine: str, network: NetworkThread, wrong: float, n: int
) -> None:
    """The first two tokens after the prompt, n times; a fault shows at p < 1e-4."""
    sampling = SamplingParams(**RAW, seed=5)
    first, second = Counter[int](), Counter[int]()
    after: Counter[int] = Counter()
    with target_of(engine, network, sampling) as (target, _):
        drafter = blend(wrong)
        rng = np.random.default_rng(8)
        target._uniform = np.random.default_rng(9).random
        for _ in range(n):
            draft, text = Draft(), list(PROMPT)
            for _ in range(2):
                q = Transforms(sampling).distribution(drafter(text), as_tokens([]))
                draft.append(q.sample(rng.random()), q)
                text.append(draft.tokens[-1])
            verdict = target.verify(as_tokens(PROMPT), draft)
            said = [*draft.tokens[: verdict.accepted], verdict.token]
            first[said[0]] += 1
            if len(said) > 1 and said[0] == _likeliest(PROMPT):
                second[said[1]] += 1
            after[verdict.accepted] += 1
    assert chi_square(first, _law(PROMPT)).p_value > 1e-4
    if second:
        assert chi_square(second, _law([*PROMPT, _likeliest(PROMPT)])).p_value > 1e-4
    assert (after[2] == n) == (wrong == 0)
    assert target.doubt is None


def test_a_correction_that_cannot_be_drawn_ends_the_answer(
    network: NetworkThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain draw in its place would not be distributed as the target's."""

    async def draw(self: ScoringClient, text: Any, n: int) -> Any:
        raise ScoresError("a log-probability is missing")

    monkeypatch.setattr(ScoringClient, "draw", draw)
    sampling = SamplingParams(**RAW)
    far = Draft([0] * 16, [None] * 16)  # sixteen tokens for sure: one of them is rejected
    with (
        target_of("vllm", network, sampling) as (target, _),
        pytest.raises(BackendError, match="a log-probability is missing"),
    ):
        target.verify(as_tokens(PROMPT), far)


def test_what_decides_is_independent_of_what_draws_the_drafts(network: NetworkThread) -> None:
    """One stream of numbers for both would prefer the tokens that it drew."""
    sampling = SamplingParams(**RAW, seed=5)
    with target_of("vllm", network, sampling) as (target, _):
        halves = Distribution(np.arange(2, dtype=np.int32), np.full(2, 0.5))
        drawn = [target._how.rule.draw(halves, 0) for _ in range(64)]
        decided = [int(target._uniform() >= 0.5) for _ in range(64)]
    assert drawn != decided


def _law(tokens: list[int]) -> Distribution:
    return Transforms(SamplingParams(**RAW)).distribution(TARGET(tokens), as_tokens([]))


def _likeliest(tokens: list[int]) -> int:
    return int(TARGET(tokens).argmax())


@pytest.mark.parametrize(
    ("engine", "fault"),
    [
        *(("sglang", f) for f in ("shifted", "short", "null", "other ids", "no tops")),
        *(("vllm", f) for f in ("shifted", "short", "null", "stale", "other ids", "no tops")),
    ],
)
def test_scores_that_cannot_be_right_accept_nothing(
    engine: str, network: NetworkThread, fault: Any
) -> None:
    """The fault begins amid the answer: the text is the target's all the same."""
    with target_of(engine, network, GREEDY, fault=fault, healthy=3) as (target, stand_in):
        finished = run(target, blend(0.0), GREEDY)
    assert list(finished.tokens) == greedy_continuation(TARGET, PROMPT, 30)
    assert target.doubt is not None
    assert finished.stats.accepted == 2 * 4  # the rounds before
    assert finished.stats.drafted == 3 * 4
    assert stand_in.requests[-1][1]["stream"]


def test_scale_out_answers_without_scores_accept_nothing(network: NetworkThread) -> None:
    sampling = SamplingParams(**RAW)
    with target_of("vllm scale-out", network, sampling, fault="null") as (target, _):
        finished = run(target, blend(0.0), sampling)
    assert len(finished.tokens) == 30
    assert target.doubt == "no scores"
    assert finished.stats.accepted == 0


def test_margins_are_logged_and_no_token_is(
    network: NetworkThread, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "specchat")
    with target_of("sglang", network, GREEDY) as (target, _):
        target.verify(as_tokens(PROMPT), Draft())
    row = np.sort(TARGET(PROMPT).astype(np.float64))
    [record] = [r for r in caplog.records if "margins" in r.message]
    assert record.message == f"margins from position 5 on: [{round(row[-1] - row[-2], 4)}]"


def test_a_server_that_is_gone_ends_the_answer_and_keeps_what_came(
    network: NetworkThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specchat.backends.scoring.target._PAUSE_S", 0.01)
    with target_of("vllm", network, GREEDY) as (target, _):
        events = generate(target, [], FixedDraftLength(0), PROMPT, max_tokens=10_000)
        next(events)
        target._client.address = parse_address("http://127.0.0.1:9")
        target.close()
        *_, finished = events
    assert isinstance(finished, Finished)
    assert finished.reason == "error"
    assert "no connection" in str(finished.error)
    assert len(finished.tokens) >= 1


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (ServerToken(N_VOCAB, -1.0, TopN(())), f"says token {N_VOCAB}"),
        (ZeroDivisionError("a fault of ours"), "ZeroDivisionError: a fault of ours"),
    ],
)
def test_a_stream_that_cannot_go_on_ends_the_answer(
    network: NetworkThread,
    monkeypatch: pytest.MonkeyPatch,
    said: ServerToken | Exception,
    cause: str,
) -> None:
    async def stream(*_: object) -> AsyncIterator[ServerToken]:
        if isinstance(said, Exception):
            raise said
        yield said

    monkeypatch.setattr(ScoringClient, "stream", stream)
    with target_of("vllm", network, SamplingParams(**RAW)) as (target, _):
        *_, finished = generate(target, [], FixedDraftLength(0), PROMPT, max_tokens=4)
    assert isinstance(finished, Finished)
    assert finished.reason == "error"
    assert cause in str(finished.error)


def test_a_wait_for_a_busy_server_is_told(
    network: NetworkThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = [TryAgainError("busy (429)", 0.0)]
    waits: list[str] = []
    score = ScoringClient.score

    async def busy_at_first(self: ScoringClient, *asked: Any) -> Any:
        if busy:
            raise busy.pop()
        return await score(self, *asked)

    monkeypatch.setattr(ScoringClient, "score", busy_at_first)
    with target_of("sglang", network, GREEDY) as (target, _):
        target._on_wait = waits.append
        target.verify(as_tokens(PROMPT), Draft([1], [None]))
    assert waits == ["busy (429)"]


HUGE = "1" + "0" * 30


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        (SGLang(), f'{{"meta_info":{{"output_token_logprobs":[[-1,{HUGE},null]]}}}}'),
        (SGLang(), '{"meta_info":{"output_token_logprobs":[[-1,-5,null]]}}'),
        (SGLang(), '{"meta_info":{"output_token_logprobs":[[800,5,null]]}}'),
        (SGLang(), '{"meta_info":{"output_token_logprobs":[[NaN,5,null]]}}'),
        (
            VLLM("big"),
            f'{{"choices":[{{"logprobs":{{"tokens":["token_id:{HUGE}"],"token_logprobs":[-1]}}}}]}}',
        ),
        (
            VLLM("big"),
            '{"choices":[{"logprobs":{"tokens":["token_id:5"],"token_logprobs":[800]}}]}',
        ),
        (VLLM("big"), '{"choices":[{"finish_reason":"abort"}]}'),
    ],
)
def test_events_that_cannot_be_right_are_refused(dialect: Dialect, event: str) -> None:
    with pytest.raises(ScoresError):
        Events(dialect, 0).read(event)
