"""Typical acceptance (Cai et al. 2024, "Medusa"). Lossy: the text is not distributed as p.

A draft token x stands where the target finds it likely enough for how sure it is of itself:
p(x) > min(epsilon, delta * exp(-entropy of p)).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft, Verdict
from specengine.rules.sampled import SampledRule

# The thresholds of the paper: delta is the square root of epsilon.
EPSILON = 0.09
DELTA = 0.3


def verify_typical(
    draft: Draft, p: Callable[[int], Distribution], uniform: Callable[[], float]
) -> Verdict:
    """Verify one token after the other; what follows the last that stands is drawn from p."""
    for i, token in enumerate(draft.tokens):
        target = p(i)
        if not target.prob(token) > threshold(target):
            return Verdict(i, target.sample(uniform()))
    return Verdict(len(draft), p(len(draft)).sample(uniform()))


def threshold(p: Distribution) -> float:
    """min(epsilon, delta * exp(-H(p))), the probability a draft token has to exceed."""
    positive = p.probs[p.probs > 0]
    entropy = -float(positive @ np.log(positive))
    return min(EPSILON, DELTA * float(np.exp(-entropy)))


class TypicalRule(SampledRule):
    name = "typical"

    def verify(self, draft: Draft, p: Callable[[int], Distribution], position: int) -> Verdict:
        return verify_typical(draft, p, self._uniform)
