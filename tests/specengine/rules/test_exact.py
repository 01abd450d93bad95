"""Losslessness by exact arithmetic: the rules' own code, run over every way a round can go.

Hundreds of random pairs of models with up to 4 tokens, up to 4 draft tokens, gaps between the ids,
different supports, deterministic and one-hot drafts. Nothing here is approximate.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from types import ModuleType

import pytest

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft, Verdict
from specengine.rules import block, token
from specengine.rules.block import verify_block
from specengine.rules.residual import drawn_from, residual, sample_residual
from specengine.rules.token import verify_token
from support.small_models import (
    Draw,
    Draws,
    RoundLaw,
    SmallPair,
    Verify,
    draw_from,
    law_of_round,
    random_pair,
)

PAIRS = [random_pair(seed) for seed in range(300)]
LOSSLESS = pytest.mark.parametrize("verify", [verify_token, verify_block])
BOTH = pytest.mark.parametrize(
    ("rule", "verify"), [(token, verify_token), (block, verify_block)], ids=["token", "block"]
)


@cache
def law(seed: int, verify: Verify) -> RoundLaw:
    return law_of_round(PAIRS[seed], verify)


@LOSSLESS
def test_a_round_is_distributed_as_the_target(verify: Verify) -> None:
    for seed, pair in enumerate(PAIRS):
        assert law(seed, verify).texts == pair.joint(), f"pair {seed}"


@LOSSLESS
def test_a_draft_may_end_before_a_token_that_would_be_drawn_unsurely(verify: Verify) -> None:
    """Also after one that was drawn against the odds: that one stays."""

    def verify_paced(draft: Draft, p: Callable[[int], Distribution], uniform: Draws) -> Verdict:
        n = 0
        while n < len(draft) and _goes_on(draft, n):
            n += 1
        return verify(Draft(draft.tokens[:n], draft.q[:n]), p, uniform)

    shortened = 0
    for seed, pair in enumerate(PAIRS[:40]):
        paced = law_of_round(pair, verify_paced)
        assert paced.texts == pair.joint(), f"pair {seed}"
        shortened += paced.accepted < law(seed, verify).accepted
    assert shortened > 10  # it did end drafts


def _goes_on(draft: Draft, n: int) -> bool:
    """Whether the token at `n` is drawn, by its q and by the tokens before it."""
    q, before = draft.q[n], draft.q[n - 1] if n else None
    if before is not None and before.prob(draft.tokens[n - 1]) < Fraction(1, 3):
        return False
    return q is None or max(q.probs) >= Fraction(1, 2)


def test_block_accepts_at_least_as_many_as_token() -> None:
    better = 0
    for seed in range(len(PAIRS)):
        by_token = law(seed, verify_token).accepted
        by_block = law(seed, verify_block).accepted
        assert by_block >= by_token, f"pair {seed}"
        better += by_block > by_token
    assert better > len(PAIRS) / 5


@LOSSLESS
def test_one_draft_token_stands_with_the_overlap_of_p_and_q(verify: Verify) -> None:
    for pair in PAIRS:
        p, q = pair.target[()], pair.drafter[()]
        q = Distribution.point(q, object) if isinstance(q, int) else q
        overlap = sum(min(p.prob(int(x)), q.prob(int(x))) for x in q.ids)
        assert law_of_round(SmallPair(1, pair.target, pair.drafter), verify).accepted == overlap


# What published implementations got wrong has to fail the check above, and for many pairs.


def share_distorted(verify: Verify, draw: Draw = draw_from) -> float:
    pairs = PAIRS[:60]
    wrong = sum(law_of_round(pair, verify, draw).texts != pair.joint() for pair in pairs)
    return wrong / len(pairs)


@BOTH
def test_resampling_from_p_after_a_rejection_is_caught(
    rule: ModuleType, verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule, "sample_residual", lambda rest, p, u: p.sample(u))
    assert share_distorted(verify) > 0.5


@BOTH
def test_keeping_only_the_targets_best_token_is_caught(
    rule: ModuleType, verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule, "sample_residual", lambda rest, p, u: p.argmax())
    assert share_distorted(verify) > 0.5


@BOTH
def test_a_residual_by_index_is_caught(
    rule: ModuleType, verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_index(p: Distribution, q: Distribution, scale: float = 1) -> Distribution:
        n = min(len(p.ids), len(q.ids))
        return residual(p, Distribution(p.ids[:n], q.probs[:n]), scale)

    monkeypatch.setattr(rule, "residual", by_index)
    assert share_distorted(verify) > 0.3


@BOTH
def test_an_argmax_passed_off_as_a_draw_from_q_is_caught(rule: ModuleType, verify: Verify) -> None:
    assert share_distorted(verify, draw=lambda q, uniform: q.argmax()) > 0.5


@BOTH
def test_dropping_drawn_tokens_of_low_probability_is_caught(
    rule: ModuleType, verify: Verify
) -> None:
    def verify_confident(draft: Draft, p: Callable[[int], Distribution], uniform: Draws) -> Verdict:
        unsure = (
            q is not None and q.prob(x) < 0.3 for x, q in zip(draft.tokens, draft.q, strict=True)
        )
        n = next((i for i, low in enumerate(unsure) if low), len(draft))
        return verify(Draft(draft.tokens[:n], draft.q[:n]), p, uniform)

    assert share_distorted(verify_confident) > 0.3


def test_block_that_stops_at_the_first_failure_is_caught() -> None:
    def verify_first(draft: Draft, p: Callable[[int], Distribution], uniform: Draws) -> Verdict:
        joint: float = 1
        accepted, accepted_joint, failed = 0, joint, False
        for i, x in enumerate(draft.tokens):
            q = drawn_from(draft, i, p(i))
            mass = residual(p(i), q, joint).probs.sum()
            if i > 0 and joint < 1 and not uniform() * (mass + 1 - joint) < mass:
                failed = True
                break
            accepted, accepted_joint = i, joint
            joint = min(1, joint * p(i).prob(x) / q.prob(x))
        if not failed and uniform() < joint:
            return Verdict(len(draft), p(len(draft)).sample(uniform()))
        target = p(accepted)
        rest = residual(target, drawn_from(draft, accepted, target), accepted_joint)
        return Verdict(accepted, sample_residual(rest, target, uniform()))

    assert share_distorted(verify_first) > 0.1
