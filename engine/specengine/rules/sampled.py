"""What the rules share that draw from q independently of p: randomness of their own."""

from __future__ import annotations

import numpy as np

from specengine.core.distribution import Distribution
from specengine.core.draft import Draw
from specengine.sampling.params import SamplingParams


class SampledRule:
    """Draws with a generator seeded by `SamplingParams.seed`, or by the system where it is None."""

    draws: list[Draw] | None = None
    """For an observer: where a list is set, the ratio rules append what they draw to it."""

    def __init__(self, params: SamplingParams) -> None:
        self._uniform = np.random.default_rng(params.seed).random

    def draw(self, q: Distribution, position: int) -> int:
        return q.sample(self._uniform())
