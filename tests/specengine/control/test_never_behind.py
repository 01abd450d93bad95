"""A draft model's drafts against fixed draft lengths: scripted costs and texts.

Costs of passes are those of our own kernels: Qwen2.5-Coder 1.5B with AVX-512, drafting by 0.5B.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from specengine.cache.costs import PassCosts
from specengine.control.controller import (
    AdaptiveDraftLength,
    DraftLengthController,
    FixedDraftLength,
)
from specengine.core.drafter import Offer, Pace

FLAT = PassCosts({1: 0.0377, 2: 0.039, 4: 0.0411, 8: 0.0509, 12: 0.071, 16: 0.097})
START_S = 0.15  # to read the prompt
SURE, UNSURE = 0.99, 0.4  # the draft model's confidence, which is how often its tokens are accepted


@dataclass
class Run:
    """Answers in which draft tokens are accepted at `rate` in the mean, each taking `token_s`."""

    controller: DraftLengthController
    rate: float
    token_s: float
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    seconds: float = 0.0

    def answer(self, tokens: int) -> float:
        """Its speed over that of the target alone."""
        self.controller.begin()
        begun, n, start_s = self.seconds, 0, START_S
        while n < tokens:
            offer = Offer("m", 1000, 0.7, start_s=start_s, token_s=self.token_s, paced=True)
            choice = self.controller.choose([offer], min(16, tokens - n - 1))
            drafted, passes, confidences = self._draft(choice.length, choice.pace)
            accepted = 0
            while accepted < drafted and self.rng.random() < confidences[accepted]:
                accepted += 1
            if choice.length:
                self.controller.observe(
                    offer, drafted, accepted, confidences if choice.pace is not None else ()
                )
                self.seconds += start_s + passes * self.token_s
                start_s = 0.0
            self.seconds += FLAT.seconds(drafted + 1)
            n += accepted + 1
        return n * FLAT.seconds(1) / (self.seconds - begun)

    def _draft(self, length: int, pace: Pace | None) -> tuple[int, int, list[float]]:
        """Its tokens, the draft passes that were made, and the confidence in each pass."""
        confidences: list[float] = []
        for drafted in range(length):
            if pace is not None and not pace.another():
                return drafted, len(confidences), confidences
            sure = self.rng.random() < (self.rate - UNSURE) / (SURE - UNSURE)
            confidences.append(SURE if sure else UNSURE)
            if pace is not None and not pace.draws(confidences[-1]):
                return drafted, len(confidences), confidences
        return length, length, confidences


@pytest.mark.parametrize("token_s", [0.008, 0.013, 0.016])
@pytest.mark.parametrize("rate", [0.84, 0.93])
def test_it_is_at_least_as_fast_as_the_best_fixed_length_where_drafts_pay(
    token_s: float, rate: float
) -> None:
    adaptive = Run(AdaptiveDraftLength(FLAT.seconds, longest=16), rate, token_s).answer(4000)
    fixed = [Run(FixedDraftLength(k), rate, token_s).answer(4000) for k in (1, 2, 3, 4, 7)]
    assert max(fixed) > 1.25
    assert adaptive > 0.99 * max(fixed)


@pytest.mark.parametrize("token_s", [0.013, 0.016])
def test_a_short_answer_with_drafts_that_pay_is_hardly_behind_the_best_fixed_length(
    token_s: float,
) -> None:
    adaptive = Run(AdaptiveDraftLength(FLAT.seconds, longest=16), 0.84, token_s)
    fixed = [Run(FixedDraftLength(k), 0.84, token_s) for k in (1, 2, 3, 4, 7)]
    best = max(np.mean([run.answer(200) for _ in range(20)]) for run in fixed)
    assert np.mean([adaptive.answer(200) for _ in range(20)]) > 0.97 * best
