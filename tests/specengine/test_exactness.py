"""Exactness on real models, over whole texts. How many choices were near-ties is printed: -rA."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specengine.checks.near_ties import NearTies, noisy_score, teacher_force
from specengine.core.events import Finished
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from specengine.sampling import SamplingParams

GREEDY = SamplingParams(temperature=0)
SEEDED = SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0, seed=7)
TEXTS = (
    "The three primary colours are red, yellow and blue. The three",
    "def reverse(items):\n    return items[::-1]\n\n\ndef reverse",
    "Rain comes about when",
)
DRAFTS = [(drafter, k) for drafter in ("lookup", "model") for k in (1, 4, 8)]
LAPTOP, GEMMA = (pytest.param(name, marks=pytest.mark.model) for name in ("laptop", "gemma"))


@pytest.fixture(scope="module", params=["tiny", "tiny without AMX", LAPTOP, GEMMA])
def pair(request: pytest.FixtureRequest, tiny_model: Path) -> Iterator[Pair]:
    if request.param == "laptop":
        target, draft = request.getfixturevalue("laptop_models")
    elif request.param == "gemma":
        target = draft = request.getfixturevalue("gemma_model")
    else:
        target = draft = tiny_model
    options = LoadOptions(n_ctx=512, use_extra_bufts=request.param != "tiny without AMX")
    pair = Pair(target, draft, method="model", options=options)
    yield pair
    pair.close()


def answer(pair: Pair, text: str, sampling: SamplingParams, **options: Any) -> Finished:
    prompt = pair.vocab.tokenize(text)
    *_, finished = pair.answer(
        prompt, AnswerRequest(sampling, max_tokens=24, logprobs=0, **options)
    )
    assert isinstance(finished, Finished)
    return finished


def told(pair: Pair, found: list[NearTies]) -> str:
    n, others = sum(f.n_tokens for f in found), sum(len(f.others) for f in found)
    widest = max(f.widest_gap for f in found)
    return f"{pair.files[0].name}: {others} of {n} tokens not the maximum, widest gap {widest:.3f}"


def test_case_4_every_greedy_token_is_the_maximum_or_a_near_tie(pair: Pair) -> None:
    found, drafted = [], 0
    for text in TEXTS:
        finished = answer(pair, text, GREEDY, draft_length=4)
        drafted += finished.stats.drafted
        found.append(teacher_force(pair.context, pair.vocab.tokenize(text), finished.tokens))
    print(told(pair, found))
    assert drafted > 0
    assert all(ties.are_all for ties in found)


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "coupled"])
def test_case_4_reproducible_texts_are_equal_bit_for_bit(
    pair: Pair, sampling: SamplingParams
) -> None:
    if pair.width_step is None:
        pytest.skip("no width of passes is stable with these kernels")
    for text in TEXTS[:2]:
        alone = answer(pair, text, sampling, reproducible=True, drafting=False)
        for drafter, k in DRAFTS:
            drafted = answer(
                pair, text, sampling, reproducible=True, drafter=drafter, draft_length=k
            )
            assert drafted.tokens == alone.tokens
            assert drafted.logprobs == alone.logprobs


def test_case_4_seeded_choices_differ_only_at_near_ties(pair: Pair) -> None:
    if pair.width_step != 1 and "gemma" in pair.files[0].name:
        pytest.skip("llama.cpp's kernels differ by whole nats for this model: docs/exactness.md")
    score = noisy_score(7, pair.vocab.size)
    for drafter, k in DRAFTS:
        found = []
        for text in TEXTS:
            finished = answer(pair, text, SEEDED, drafter=drafter, draft_length=k)
            prompt = pair.vocab.tokenize(text)
            found.append(teacher_force(pair.context, prompt, finished.tokens, score=score))
        print(f"{drafter}-{k}", told(pair, found))
        assert all(ties.are_all for ties in found)
