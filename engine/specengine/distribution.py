"""A next-token distribution: token ids and their probabilities, sparse after truncation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Probabilities over token ids.

    `ids` is int32 of shape (n,), ascending and distinct; `probs` is float64 of shape (n,),
    summing to 1. Ids that are not listed have probability 0. An untruncated distribution lists
    every id of the vocabulary.
    """

    ids: NDArray[np.int32]
    probs: NDArray[np.float64]

    @classmethod
    def point(cls, token: int) -> Distribution:
        """All mass on one token: what a deterministic draft was drawn from."""
        return cls(np.array([token], dtype=np.int32), np.ones(1))

    def prob(self, token: int) -> float:
        """Probability of `token`, 0.0 where it is not listed."""
        i = int(self.ids.searchsorted(token))
        if i < len(self.ids) and self.ids[i] == token:
            return float(self.probs[i])
        return 0.0

    def argmax(self) -> int:
        """The most probable token; the lowest id among equals."""
        return int(self.ids[self.probs.argmax()])

    def sample(self, u: float) -> int:
        """The token at `u` in [0, 1) of the cumulative distribution (inverse transform)."""
        cumulative = self.probs.cumsum()
        i = int(cumulative.searchsorted(u * cumulative[-1], side="right"))
        return int(self.ids[min(i, len(self.ids) - 1)])
