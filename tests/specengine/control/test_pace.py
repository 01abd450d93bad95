"""When a draft ends before its longest length: expected gain against cost, in tokens a second."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from specengine.cache.costs import PassCosts
from specengine.control.controller import AdaptiveDraftLength
from specengine.control.pace import AdaptivePace
from specengine.control.survival import Survival
from specengine.core.draft import Draft
from specengine.core.drafter import Offer
from specengine.drafters.drawing import draw
from specengine.loop.generate import generate
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
from support.fakes import greedy_continuation, markov
from support.rig import Rig

V = 8
COSTS = PassCosts({1: 0.30, 2: 0.34, 3: 0.38, 5: 0.46, 9: 0.62, 17: 0.94})  # .04 a token


OFFER = Offer("m", 100, 0.7, token_s=0.05, paced=True)


def pace() -> AdaptivePace:
    return _pace(COSTS.seconds)


def _pace(pass_seconds: Callable[[int], float]) -> AdaptivePace:
    return AdaptivePace(
        Survival(), OFFER.kind, OFFER.prior, 5.0, OFFER.seconds, pass_seconds, longest=16
    )


def test_a_token_is_drawn_where_it_is_sure_enough_for_its_place_in_the_pass() -> None:
    # At 5 tokens a second a place that costs .04 s has to bring .2 tokens.
    assert pace().draws(0.21)
    assert not pace().draws(0.19)


def test_what_is_drawn_after_an_unsure_token_stands_less_often() -> None:
    after_sure, after_unsure = pace(), pace()
    assert after_sure.draws(0.9)
    assert after_unsure.draws(0.5)
    assert after_sure.draws(0.3)  # .27
    assert not after_unsure.draws(0.3)  # .15


def test_another_pass_is_made_only_where_it_is_expected_to_pay() -> None:
    assert pace().another()  # the first was decided with the draft
    # A pass of .05 s and a place of .04 s have to bring .45 tokens, of usually .7.
    for confidence, worth_it in ((0.7, True), (0.6, False)):
        draft = pace()
        assert draft.draws(confidence)
        assert draft.another() == worth_it


def test_a_place_that_costs_nothing_is_always_filled() -> None:
    assert _pace(lambda width: 0.3).draws(0.01)


def test_a_place_that_is_dear_is_filled_where_those_after_it_are_cheap() -> None:
    costs = PassCosts({1: 0.25, 2: 0.41, 5: 0.50, 17: 0.83})  # with AMX, measured
    # At 5 tokens a second the first place alone has to bring .8 tokens: .7 is too little, unless
    # the tokens after it mostly stand.
    assert not _pace(costs.seconds).draws(0.7)
    survival = Survival()
    for _ in range(40):
        survival.observe(OFFER.kind, 8, 8)
    hopeful = AdaptivePace(
        survival, OFFER.kind, OFFER.prior, 5.0, OFFER.seconds, costs.seconds, longest=16
    )
    assert hopeful.draws(0.7)
    assert not AdaptivePace(
        survival, OFFER.kind, OFFER.prior, 5.0, OFFER.seconds, costs.seconds, longest=1
    ).draws(0.7)


def test_confidence_is_believed_as_far_as_it_was_right() -> None:
    survival = Survival()
    assert survival.sure("m", 0, 0.8) == pytest.approx(0.8)
    for _ in range(60):
        survival.observe("m", 1, 0, confidence=[0.8])
    assert survival.sure("m", 0, 0.8) < 0.1
    assert survival.sure("m", 1, 0.8) < 0.2  # what holds at one position is likely at others
    assert survival.sure("m", 0, 0.99) == pytest.approx(0.99)
    assert survival.sure("other", 0, 0.8) == pytest.approx(0.8)


def test_confidence_is_learned_for_each_position() -> None:
    survival = Survival()
    for i in range(200):
        survival.observe("m", 2, 2 if i % 2 else 1, confidence=[0.8, 0.8])
    assert survival.sure("m", 0, 0.8) > 0.95
    assert 0.4 < survival.sure("m", 1, 0.8) < 0.65


def test_positions_left_out_when_unsure_do_not_seem_better_for_it() -> None:
    survival = Survival()
    for i in range(100):  # every other time there is nothing to be sure of
        if i % 2:
            survival.observe("m", 1, 1, confidence=[0.95])
        else:
            survival.observe("m", 0, 0, confidence=[0.1])
    assert survival.cumulative("m", 1, 0.7)[0] == pytest.approx(0.55, abs=0.1)


class _Unless:
    """Ends a draft before the first token that is less sure than `least`."""

    def __init__(self, least: float) -> None:
        self.least = least

    def another(self) -> bool:
        return True

    def draws(self, confidence: float) -> bool:
        return confidence >= self.least


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_says_how_sure_each_token_was_and_ends_before_it_is_drawn(
    temperature: float,
) -> None:
    sampling = SamplingParams(temperature=temperature, top_k=0, top_p=1, min_p=0, seed=3)
    model = markov(V, seed=1, sharpness=2.0)
    rule, drawn = make_rule("token" if temperature else None, sampling), []
    transforms = Transforms(sampling)

    class Noting:
        name = rule.name
        verify = rule.verify

        def draw(self, q: object, position: int) -> int:
            drawn.append(position)
            return rule.draw(q, position)  # type: ignore[arg-type]

    prefix = np.array([1, 2, 3], dtype=np.int32)

    def made(least: float) -> Draft:
        drawn.clear()
        row = lambda tokens: model([1, 2, 3, *tokens])  # noqa: E731
        return draw(row, 12, prefix, transforms, Noting(), frozenset(), _Unless(least))

    for least in (0.3, 0.5):
        draft = made(least)
        assert len(draft) < 12
        assert len(draft.confidence) == len(draft) + 1
        assert min(draft.confidence[:-1], default=1.0) >= least > draft.confidence[-1]
        assert drawn == [3 + i for i in range(len(draft))]
        for i, confidence in enumerate(draft.confidence):
            logits = model([1, 2, 3, *draft.tokens[:i]]).astype(np.float64)
            chances = np.exp(logits) / np.exp(logits).sum()
            assert confidence == pytest.approx(chances.max(), rel=1e-5)


def test_drafts_are_long_where_the_drafter_is_sure_and_short_where_not() -> None:
    """The target agrees where the draft model is sure of itself, and the text stays its own."""
    target = markov(V, seed=7, sharpness=4.0)

    def unsure(tokens: object) -> np.ndarray:
        logits = target(tokens)  # type: ignore[arg-type]
        if sum(tokens) % 3:  # type: ignore[call-overload]
            return logits
        return np.roll(logits, 1) * np.float32(0.1)

    rig = Rig(target, draft=unsure)
    assert rig.drafter is not None
    rig.drafter.context.costs.observe(1, 0.02)  # type: ignore[attr-defined]
    controller = AdaptiveDraftLength(COSTS.seconds, longest=16)
    *_, finished = generate(rig.target, [rig.drafter], controller, [1, 2, 3], max_tokens=120)
    assert list(finished.tokens) == greedy_continuation(target, [1, 2, 3], 120)
    assert (finished.stats.acceptance_rate or 0) > 0.8
    assert (finished.stats.tokens_per_pass or 0) > 2
    assert rig.caches_hold_what_they_say()


def test_a_draft_that_came_to_nothing_is_paid_from_the_account() -> None:
    controller = AdaptiveDraftLength(COSTS.seconds, longest=16)
    offer = replace(OFFER, prior=0.9)
    made = 0
    for _ in range(200):
        choice = controller.choose([offer], 16)
        if choice.length:
            made += 1
            controller.observe(offer, 0, 0, [0.05])
    assert 0 < made * 0.05 < (1 + 3 + 0.02 * 200) * 0.30
