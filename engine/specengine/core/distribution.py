"""A next-token distribution: token ids and their probabilities, sparse after truncation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_LARGE = 4096  # from this size on a sum over blocks pays
_BLOCKS = 256


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Probabilities over token ids.

    `ids` is int32 of shape (n,), ascending and distinct; `probs` is float64 of shape (n,),
    summing to 1. Ids that are not listed have probability 0. An untruncated distribution lists
    every id of the vocabulary.

    Nothing here rounds: with `probs` an object array of `fractions.Fraction` every method is exact,
    which is how the acceptance rules are proven.
    """

    ids: NDArray[np.int32]
    probs: NDArray[np.float64]

    @classmethod
    def point(cls, token: int, dtype: DTypeLike = np.float64) -> Distribution:
        """All mass on one token: what a deterministic draft was drawn from."""
        return cls(np.array([token], dtype=np.int32), _one(np.dtype(dtype)))

    def prob(self, token: int) -> float:
        """Probability of `token`, 0 where it is not listed."""
        i = int(self.ids.searchsorted(token))
        if i < len(self.ids) and self.ids[i] == token:
            return self.probs.item(i)
        return 0

    def probs_of(self, ids: NDArray[np.int32]) -> NDArray[np.float64]:
        """Probabilities of ascending, distinct `ids`, shape (len(ids),), 0 where not listed."""
        if ids is self.ids or np.array_equal(ids, self.ids):
            return self.probs
        found = np.zeros(len(ids), dtype=self.probs.dtype)
        if len(self.ids) < len(ids):  # search the shorter list in the longer one
            at = np.minimum(ids.searchsorted(self.ids), len(ids) - 1)
            listed = ids[at] == self.ids
            found[at[listed]] = self.probs[listed]
        else:
            at = np.minimum(self.ids.searchsorted(ids), len(self.ids) - 1)
            listed = self.ids[at] == ids
            found[listed] = self.probs[at[listed]]
        return found

    def argmax(self) -> int:
        """The most probable token; the lowest id among equals."""
        ids = self.ids
        return ids.item(0) if len(ids) == 1 else ids.item(self.probs.argmax())

    def top(self, n: int) -> list[tuple[int, float]]:
        """The `n` most probable tokens with their probabilities, best first; none of 0."""
        order = (-self.probs).argsort(kind="stable")[:n]
        return [(int(self.ids[i]), float(self.probs[i])) for i in order if self.probs[i] > 0]

    def sample(self, u: Any) -> int:
        """The token at `u` in [0, 1) of the cumulative distribution (inverse transform).

        `probs` need not be normalised: `u` is scaled by their sum.
        """
        probs = self.probs
        if len(probs) <= _LARGE:
            cumulative = probs.cumsum()
            return int(self.ids[_first_above(cumulative, u * cumulative[-1])])
        # The block first, then the token in it.
        width = len(probs) // _BLOCKS
        sums = np.add.reduceat(probs, np.arange(0, len(probs), width)).cumsum()
        target = u * sums[-1]
        block = _first_above(sums, target)
        if block:
            target -= sums[block - 1]
        start = block * width
        within = probs[start : start + width].cumsum()
        return int(self.ids[start + _first_above(within, target)])


@lru_cache(maxsize=4)  # every token of a greedy text is one such
def _one(dtype: np.dtype[Any]) -> NDArray[Any]:
    one = np.ones(1, dtype=dtype)
    one.flags.writeable = False
    return one


def _first_above(cumulative: NDArray[np.float64], target: Any) -> int:
    """The first entry above `target`; the last that adds anything, where rounding left none."""
    i = int(cumulative.searchsorted(target, side="right"))
    return i if i < len(cumulative) else int(cumulative.searchsorted(cumulative[-1]))
