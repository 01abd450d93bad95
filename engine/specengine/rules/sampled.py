"""What the rules share that draw from q independently of p: randomness of their own."""

from __future__ import annotations

import numpy as np

from specengine.distribution import Distribution
from specengine.sampling.params import SamplingParams


class SampledRule:
    """Draws with a generator seeded by `SamplingParams.seed`, or by the system where it is None."""

    def __init__(self, params: SamplingParams) -> None:
        self._uniform = np.random.default_rng(params.seed).random

    def draw(self, q: Distribution, position: int) -> int:
        return q.sample(self._uniform())
