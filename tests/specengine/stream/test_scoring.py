"""What may be verified by scores, and that it is exact: the code itself, in rational arithmetic."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft, Verdict
from specengine.rules.residual import residual
from specengine.sampling import SamplingParams, Transforms
from specengine.stream import scoring
from specengine.stream.scoring import (
    Drawn,
    ScoresError,
    TopN,
    distribution,
    verify_draws,
    way_to_verify,
)
from support.exact import outcomes
from support.small_models import law_of_round, random_pair

PAIRS = [random_pair(seed) for seed in range(25)]
RAW = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}


@dataclass
class Server:
    """Draws from p for ever."""

    p: Distribution
    uniform: Any

    def __iter__(self) -> Server:
        return self

    def __next__(self) -> Drawn:
        y = self.p.sample(self.uniform())
        return Drawn(y, self.p.prob(y))


def by_draws(draft: Draft, p: Callable[[int], Distribution], uniform: Any) -> Verdict:
    """`verify_draws` with a server whose draws follow p."""
    probs = [p(i).prob(token) for i, token in enumerate(draft.tokens)]
    bonus = p(len(draft)).sample(uniform())
    return verify_draws(draft, probs, bonus, lambda i: Server(p(i), uniform), uniform)


def ideal(server: Server, q: Distribution, uniform: Any) -> int:
    """In the place of the server's tries: one draw from the residual itself."""
    return residual(server.p, q).sample(uniform())


def test_a_round_is_distributed_as_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_residual", ideal)
    for seed, pair in enumerate(PAIRS):
        assert law_of_round(pair, by_draws).texts == pair.joint(), f"pair {seed}"


def test_a_try_for_a_correction_keeps_exactly_the_residual() -> None:
    """Trying until one is kept normalises it."""
    for seed, pair in enumerate(PAIRS):
        p, q = pair.target[()], pair.drafter[()]
        q = Distribution.point(q, object) if isinstance(q, int) else q
        kept: defaultdict[int, Fraction] = defaultdict(Fraction)

        def one_try(uniform: Any, p: Distribution = p, q: Distribution = q) -> int | None:
            y = p.sample(uniform())
            try:
                return scoring._residual(iter([Drawn(y, p.prob(y))]), q, uniform)
            except StopIteration:
                return None

        for mass, token in outcomes(one_try):
            if token is not None:
                kept[token] += mass
        rest = residual(p, q)
        expected = zip(rest.ids.tolist(), rest.probs.tolist(), strict=True)
        assert kept == {token: mass for token, mass in expected if mass}, f"pair {seed}"


def test_the_first_draw_for_a_correction_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_residual", lambda draws, q, uniform: next(draws).token)
    wrong = sum(law_of_round(p, by_draws).texts != p.joint() for p in PAIRS[:10])
    assert wrong > 5


@pytest.mark.parametrize(
    ("settings", "top_n", "way"),
    [
        ({"temperature": 0}, 1, "rows"),
        ({"temperature": 0, "top_k": 0}, 1, "rows"),
        ({"temperature": 0}, 0, "alone"),
        ({"temperature": 0.7, "top_k": 20}, 20, "rows"),
        ({"temperature": 0.7, "top_k": 21}, 20, "alone"),
        ({"temperature": 0.7, **RAW}, 20, "alone"),
        ({"temperature": 1, **RAW}, 20, "draws"),
        ({"temperature": 1, **RAW}, 0, "draws"),
        ({"temperature": 1, **RAW, "top_p": 0.95}, 20, "alone"),
        ({"temperature": 1, **RAW, "min_p": 0.05}, 20, "alone"),
        ({"temperature": 1, **RAW, "top_k": 5}, 20, "rows"),
        ({"temperature": 0, "repeat_penalty": 1.1}, 20, "alone"),
        ({"temperature": 0, "repeat_penalty": 1.1, "repeat_last_n": 0}, 20, "rows"),
        ({"temperature": 0, "presence_penalty": 0.1}, 20, "alone"),
        ({"temperature": 0, "logit_bias": {3: 1.0}}, 20, "alone"),
        ({"temperature": 0, "typical_p": 0.5}, 20, "alone"),
    ],
)
def test_what_is_exact_with_which_settings(
    settings: dict[str, Any], top_n: int, way: scoring.Way
) -> None:
    assert way_to_verify(SamplingParams(**settings), top_n) == way


def test_a_setting_that_nobody_has_thought_of_here_is_left_to_the_server_alone() -> None:
    class Later(SamplingParams):
        novelty: float = 0.0

    assert way_to_verify(Later(temperature=0), 20) == "rows"
    assert way_to_verify(Later(temperature=0, novelty=0.5), 20) == "alone"


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0},
        {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": 0.02},
        {"temperature": 1.6, "top_k": 7, "top_p": 1.0, "min_p": 0.0},
    ],
)
def test_the_most_probable_tokens_hold_the_whole_distribution(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(4)
    params = SamplingParams(**settings)
    for _ in range(50):
        logits = (3 * rng.standard_normal(500)).astype(np.float32)
        logprobs = logits - np.log(np.exp(logits.astype(np.float64)).sum())
        best = (-logprobs).argsort()[:20]
        row = TopN(tuple((int(t), float(logprobs[t])) for t in best))
        whole = Transforms(params).distribution(logits, np.empty(0, dtype=np.int32))
        told = distribution(row, params)
        assert told.ids.tolist() == whole.ids.tolist()
        np.testing.assert_allclose(told.probs, whole.probs, rtol=1e-5)


def test_exact_ties_go_to_the_lowest_id() -> None:
    ties = [(9, -1.5), (4, -1.5), (7, -1.5), (2, -1.5000001)]
    for order in itertools.permutations(ties[:3]):
        assert distribution(TopN((*order, ties[3])), SamplingParams(temperature=0)).argmax() == 4


@pytest.mark.parametrize(
    ("tokens", "n", "cause"),
    [
        ([(1, -0.1)], 2, "1 of the 2"),
        ([(1, -2.0), (2, -1.0)], 2, "order"),
        ([(1, -0.7), (1, -0.7)], 2, "order"),
        ([(1, -0.1), (2, -0.1)], 2, "sum to more than 1"),
        ([(1, math.nan), (2, -1.0)], 2, "sum to more than 1|order"),
    ],
)
def test_what_cannot_be_the_most_probable_tokens(
    tokens: list[tuple[int, float]], n: int, cause: str
) -> None:
    with pytest.raises(ScoresError, match=cause):
        TopN(tuple(tokens)).checked(n)
