"""Expected numbers of accepted draft tokens are those of the rules themselves."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from acceptance.expected import acceptance_chances
from specengine.core.distribution import Distribution
from specengine.core.draft import Draft
from specengine.rules.block import verify_block
from specengine.rules.coupled import race, verify_coupled
from specengine.rules.token import verify_token
from specengine.sampling.noise import Noise
from support.small_models import SmallPair, Verify, law_of_round, random_pair

RULES: dict[str, Verify] = {"token": verify_token, "block": verify_block}


def drafts(pair: SmallPair) -> list[tuple[Fraction, Draft]]:
    """Every draft of `pair` with its probability."""
    found = [(Fraction(1), Draft())]
    for _ in range(pair.k):
        found = [
            (mass * chance, Draft([*draft.tokens, token], [*draft.q, q]))
            for mass, draft in found
            for token, chance, q in choices(pair, draft)
        ]
    return found


def choices(pair: SmallPair, draft: Draft) -> list[tuple[int, Fraction, Distribution | None]]:
    q = pair.drafter[tuple(draft.tokens)]
    if isinstance(q, int):
        return [(q, Fraction(1), None)]
    return [(int(x), c, q) for x, c in zip(q.ids, q.probs, strict=True) if c]


def drawn(tokens: Iterable[int], q: Iterable[Distribution]) -> Draft:
    return Draft(list(tokens), list(q))


def target_rows(pair: SmallPair, draft: Draft) -> list[Distribution]:
    return [pair.target[tuple(draft.tokens[:i])] for i in range(len(draft))]


@pytest.mark.parametrize("rule", RULES)
def test_over_all_drafts_it_is_what_a_round_accepts(rule: str) -> None:
    for seed in range(30):
        pair = random_pair(seed)
        expected = sum(
            mass * sum(acceptance_chances(rule, draft, target_rows(pair, draft)))
            for mass, draft in drafts(pair)
        )
        assert expected == law_of_round(pair, RULES[rule]).accepted, f"pair {seed}"


def test_block_is_never_below_token_for_any_draft() -> None:
    for seed in range(30):
        for _, draft in drafts(pair := random_pair(seed)):
            p = target_rows(pair, draft)
            by_block, by_token = (acceptance_chances(rule, draft, p) for rule in ("block", "token"))
            assert all(b >= t for b, t in zip(by_block, by_token, strict=True))


def test_shared_noise_accepts_as_often_as_the_formula_says() -> None:
    rng = np.random.default_rng(5)
    ids = np.arange(5, dtype=np.int32)
    p = [Distribution(ids, rng.dirichlet(np.ones(5))) for _ in range(2)]
    q = [Distribution(ids, rng.dirichlet(np.ones(5))) for _ in range(2)]
    expected = np.zeros(2)
    for x, y in product(range(5), repeat=2):
        chances = acceptance_chances("coupled", drawn([x, y], q), p)
        expected += q[0].prob(x) * q[1].prob(y) * np.array(chances)
    n = 5_000
    accepted = np.zeros(2)
    for seed in range(n):
        noise = Noise(seed)
        draft = drawn((race(q[i], noise, i) for i in range(2)), q)
        length = verify_coupled(draft, lambda i: p[min(i, 1)], noise, 0).accepted
        accepted[:length] += 1
    # Four standard errors: fails by chance for one seed in 8,000.
    assert np.allclose(accepted / n, expected, atol=4 * 0.5 / np.sqrt(n), rtol=0)


def test_a_token_that_the_target_excludes_stands_with_no_rule() -> None:
    ids = np.array([1, 2], dtype=np.int32)
    q = Distribution(ids, np.array([0.5, 0.5]))
    for rule in ("token", "block", "coupled"):
        assert acceptance_chances(rule, drawn([1], [q]), [Distribution.point(2)]) == [0]
