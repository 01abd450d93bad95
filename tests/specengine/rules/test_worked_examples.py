"""Small cases with known answers, each computed over every way the draws can fall."""

from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft, Verdict
from specengine.rules.block import verify_block
from specengine.rules.greedy import verify_greedy
from specengine.rules.residual import residual, sample_residual
from specengine.rules.token import verify_token
from specengine.rules.typical import threshold, verify_typical
from support.exact import outcomes
from support.small_models import Verify, distribution


def exactly(*probs: str) -> Distribution:
    return distribution({token: Fraction(p) for token, p in enumerate(probs)})


def asked(p: list[Distribution]) -> tuple[Callable[[int], Distribution], list[int]]:
    """`p` as a rule asks for it, and the positions that it asked for."""
    positions: list[int] = []

    def at(i: int) -> Distribution:
        positions.append(i)
        return p[i]

    return at, positions


def test_where_rounding_leaves_the_residual_no_mass_the_correction_is_drawn_from_p() -> None:
    p = Distribution(np.array([2, 5, 7], dtype=np.int32), np.array([0.5, 0.25, 0.25]))
    nothing = residual(p, p)
    assert nothing.probs.sum() == 0
    assert [sample_residual(nothing, p, u) for u in (0.1, 0.6, 0.9)] == [2, 5, 7]


RATIO_RULES = pytest.mark.parametrize("verify", [verify_token, verify_block])

P3, Q3 = exactly(".6", ".3", ".1"), exactly(".5", ".4", ".1")
P2, Q2 = exactly(".3", ".7"), exactly(".4", ".6")
P2_FAR, Q2_FAR = exactly(".3", ".7"), exactly(".8", ".2")


@RATIO_RULES
@pytest.mark.parametrize(
    ("p", "q", "chances"),
    [
        (P3, Q3, ["1", ".75", "1"]),
        (P2, Q2, [".75", "1"]),
        (P2_FAR, Q2_FAR, [".375", "1"]),
    ],
)
def test_chance_of_acceptance_correction_and_output(
    verify: Verify, p: Distribution, q: Distribution, chances: list[str]
) -> None:
    output: dict[int, Fraction] = defaultdict(Fraction)
    corrections: set[int] = set()
    for token, chance in enumerate(chances):
        draft = Draft([token], [q])
        accepted = Fraction(0)
        for mass, verdict in outcomes(lambda u: verify(draft, lambda i: p, u)):  # noqa: B023
            accepted += mass * verdict.accepted
            output[token if verdict.accepted else verdict.token] += mass * Fraction(q.prob(token))
            if not verdict.accepted:
                corrections.add(verdict.token)
        assert accepted == Fraction(chance)
    assert [output[token] for token in range(len(chances))] == list(p.probs)
    assert corrections == {int((p.probs - q.probs).argmax())}


@RATIO_RULES
def test_a_deterministic_draft_stands_with_probability_p(verify: Verify) -> None:
    law: dict[Verdict, Fraction] = defaultdict(Fraction)
    p, _ = asked([P3, Q3])
    for mass, verdict in outcomes(lambda u: verify(Draft([1], [None]), p, u)):
        law[verdict] += mass
    # Rejected with .7, then .6 and .1 of it: p without the draft token.
    assert law == {
        Verdict(0, 0): Fraction("6/10"),
        Verdict(0, 2): Fraction("1/10"),
        Verdict(1, 0): Fraction("15/100"),
        Verdict(1, 1): Fraction("12/100"),
        Verdict(1, 2): Fraction("3/100"),
    }


@RATIO_RULES
def test_all_accepted_gives_a_bonus_from_p_after_the_last_draft_token(verify: Verify) -> None:
    p, positions = asked([P2] * 4 + [Distribution.point(7)])
    draft = Draft([0, 1, 0, 1], [P2] * 4)
    assert verify(draft, p, lambda: 0.999) == Verdict(4, 7)
    assert positions == [0, 1, 2, 3, 4]


@RATIO_RULES
def test_an_empty_draft_gives_one_token_of_the_target(verify: Verify) -> None:
    assert verify(Draft(), lambda i: P2, lambda: 0.5) == Verdict(0, 1)


def test_token_asks_for_p_only_up_to_the_first_rejection() -> None:
    p, positions = asked([P3, Distribution.point(2), P3])
    verdict = verify_token(Draft([0, 1, 0], [None] * 3), p, lambda: 0.5)
    assert verdict == Verdict(1, 2)
    assert positions == [0, 1]


def test_block_asks_for_no_p_after_a_token_that_the_target_excludes() -> None:
    p, positions = asked([P3, Distribution.point(2), P3])
    assert verify_block(Draft([0, 1, 0], [None] * 3), p, lambda: 0.25).token == 2
    assert positions == [0, 1]


@RATIO_RULES
def test_a_residual_without_mass_falls_back_to_p(verify: Verify) -> None:
    # p and q are equal but for rounding, and the first draw falls between them.
    ids = np.array([3, 9], dtype=np.int32)
    q = Distribution(ids, np.array([0.25, 0.75]))
    p = Distribution(ids, np.array([0.25, np.nextafter(0.75, 0)]))
    draws = iter([1 - 2**-53, 0.1])
    assert verify(Draft([9], [q]), lambda i: p, draws.__next__) == Verdict(0, 3)


PARIS, STOP, IT, IS, END = range(5)


def test_greedy_takes_what_the_target_says_and_looks_no_further() -> None:
    p, positions = asked([Distribution.point(token) for token in (PARIS, STOP, END, 0, 0)])
    verdict = verify_greedy(Draft([PARIS, STOP, IT, IS], [None] * 4), p)
    assert verdict == Verdict(2, END)
    assert positions == [0, 1, 2]


def test_greedy_with_a_wrong_first_token_gives_the_targets_own() -> None:
    assert verify_greedy(Draft([IT], [None]), lambda i: Distribution.point(PARIS)) == Verdict(
        0, PARIS
    )


def test_typical_accepts_by_the_targets_own_certainty() -> None:
    certain = Distribution(np.arange(2, dtype=np.int32), np.array([0.95, 0.05]))
    uncertain = Distribution(np.arange(20, dtype=np.int32), np.full(20, 0.05))
    assert threshold(certain) == 0.09
    assert threshold(uncertain) == pytest.approx(0.3 / 20)  # the entropy is log 20
    draft = Draft([1], [None])
    assert verify_typical(draft, lambda i: certain, lambda: 0.0) == Verdict(0, 0)
    assert verify_typical(draft, lambda i: uncertain, lambda: 0.0) == Verdict(1, 0)
