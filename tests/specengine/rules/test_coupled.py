"""Shared noise: the text is that of the run without a drafter, whatever is drafted."""

import numpy as np
import pytest

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft
from specengine.rules import coupled
from specengine.rules.coupled import CoupledRule, race, verify_coupled
from specengine.sampling import SamplingParams
from specengine.sampling.noise import Noise

VOCABULARY = np.arange(6, dtype=np.int32)


def random_distribution(rng: np.random.Generator, n: int = len(VOCABULARY)) -> Distribution:
    ids = np.sort(rng.choice(VOCABULARY, size=rng.integers(1, n + 1), replace=False))
    return Distribution(ids.astype(np.int32), rng.dirichlet(np.ones(len(ids))))


class Model:
    """A distribution for every text, drawn once."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, text: list[int]) -> Distribution:
        return random_distribution(np.random.default_rng([self._seed, *text]))


def speak(k: int | None, target: Model, drafter: Model | None, length: int = 40) -> list[int]:
    """Text of `length` tokens; `k` draft tokens a round, of random lengths where None."""
    rule = CoupledRule(SamplingParams(seed=2024))
    lengths = np.random.default_rng(k)
    text = [0, 3]
    while len(text) < length:
        draft = Draft()
        for _ in range(int(lengths.integers(0, 6)) if k is None else k):
            assert drafter is not None
            before = [*text, *draft.tokens]
            q = drafter(before)
            draft.append(rule.draw(q, len(before)), q)
        verdict = rule.verify(draft, lambda i: target([*text, *draft.tokens[:i]]), len(text))  # noqa: B023
        text += [*draft.tokens[: verdict.accepted], verdict.token]
    return text[:length]


@pytest.mark.parametrize("k", [1, 2, 4, 8, None])
def test_any_drafter_and_any_draft_length_give_the_text_of_the_run_without(k: int | None) -> None:
    target = Model(1)
    plain = speak(0, target, None)
    assert speak(k, target, drafter=Model(2)) == plain
    assert speak(k, target, drafter=target) == plain


def test_drafts_that_were_never_drawn_change_nothing() -> None:
    target = Model(1)
    noise = Noise(4)
    own = race(target([]), noise, 0)
    for token in VOCABULARY:
        verdict = verify_coupled(Draft([int(token)], [None]), lambda i: target([]), noise, 0)
        assert verdict.token == own or verdict.accepted == 1
        assert verdict.accepted == (token == own)


def test_a_drafter_that_knows_p_is_always_right() -> None:
    rng = np.random.default_rng(0)
    rule = CoupledRule(SamplingParams(seed=1))
    for position in range(200):
        p = random_distribution(rng)
        draft = Draft([rule.draw(p, position)], [p])
        assert rule.verify(draft, lambda i: p, position).accepted == 1  # noqa: B023


def test_matches_are_as_likely_as_the_theory_promises() -> None:
    rng = np.random.default_rng(7)
    noise = Noise(99)
    n = 1500
    for case in range(5):
        p, q = (Distribution(VOCABULARY, rng.dirichlet(np.ones(6))) for _ in range(2))
        distance = float(np.abs(p.probs - q.probs).sum()) / 2
        matches = sum(race(p, noise, t) == race(q, noise, t) for t in range(case * n, case * n + n))
        promised = (1 - distance) / (1 + distance)
        assert matches / n > promised - 3 * np.sqrt(promised * (1 - promised) / n)
        assert matches / n < 1 - distance + 3 * np.sqrt(distance * (1 - distance) / n)


def test_bounds_first_gives_the_winner_of_the_whole_race(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    noise = Noise(6)
    logits = rng.normal(0, 3, 4000)
    probs = np.exp(logits) / np.exp(logits).sum()
    probs[rng.integers(0, 4000, 500)] = 0
    p = Distribution(np.arange(4000, dtype=np.int32), probs)
    by_bounds = [race(p, noise, t) for t in range(300)]
    monkeypatch.setattr(coupled, "_LARGE", 10_000)
    assert by_bounds == [race(p, noise, t) for t in range(300)]
    assert len(set(by_bounds)) > 30
