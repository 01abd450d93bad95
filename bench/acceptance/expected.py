"""The chances that a rule accepts 1, 2, … k tokens of one draft: what to compare rules by.

Counts need thousands of rounds to tell rules apart by a hundredth; these need one pass a draft, and
rules that are given the same draft can be compared one by one. For draft tokens x_1..x_k that were
drawn from q_1..q_k, the chance that at least i of them are accepted is

    token    prod over j <= i of min(1, r_j),  r_j = p_j(x_j) / q_j(x_j)
    block    P_i = min(1, P_{i-1} r_i), P_0 = 1     (over what is drawn after x_i as well)
    coupled  prod over j <= i of m_j(x_j) / q_j(x_j),
             m(x) = 1 / sum over y of max(p(y) / p(x), q(y) / q(x)):
             the chance that both races are won by x (Daliri, Musco, Suresh 2024)

A draft of argmaxes that is compared with what the target samples is accepted with prod p_j(x_j),
which is `token` with point masses for q. All of it averages, over the draws of the draft, to what a
round of the rule does (`tests/bench/acceptance/test_expected.py`, in exact fractions).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft
from specengine.rules.residual import drawn_from


def acceptance_chances(rule: str, draft: Draft, p: Sequence[Distribution]) -> list[float]:
    """Chances that at least 1, 2, … k of the draft tokens are accepted; the sum is their
    expected number.

    `p[i]` is the target's distribution after the prefix and `draft.tokens[:i]`. `rule` is "token",
    "block" or "coupled"; KeyError for another.
    """
    chance = _CHANCES[rule]
    chances = (
        chance(p[i], drawn_from(draft, i, p[i]), token) for i, token in enumerate(draft.tokens)
    )
    # only the ratios of `block` may exceed 1
    accepted: list[float] = list(accumulate(chances, lambda s, c: min(1, s * c), initial=1))
    return accepted[1:]


def _ratio(p: Distribution, q: Distribution, token: int) -> Any:
    mass = p.prob(token)
    return mass / q.prob(token) if mass else 0  # an int: 0 / 1 would end exact arithmetic


def _acceptance(p: Distribution, q: Distribution, token: int) -> Any:
    return min(1, _ratio(p, q, token))


def _same_winner(p: Distribution, q: Distribution, token: int) -> Any:
    """The chance that `token` wins the target's race, given that it won the drafter's."""
    if p.prob(token) == 0:
        return 0
    ids = np.union1d(p.ids, q.ids).astype(np.int32)
    rates = np.maximum(p.probs_of(ids) / p.prob(token), q.probs_of(ids) / q.prob(token))
    return 1 / rates.sum() / q.prob(token)


_CHANCES: dict[str, Callable[[Distribution, Distribution, int], Any]] = {
    "token": _acceptance,
    "block": _ratio,
    "coupled": _same_winner,
}
