"""Counter-based noise: one exponential variate for each (seed, position, token id), no state.

Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). Whoever knows the
seed computes the same noise, in any order, for any subset of the tokens: a drafter and its target,
two processes, two machines. The protocol of remote targets relies on these definitions:

    key      = (seed mod 2^32, seed div 2^32)
    coarse   = 16 bits, the (token mod 8)-th little-endian half-word of
               philox(counter = (token div 8, position, 0, 0), key)
    fine     = 64 bits, the first two little-endian words of
               philox(counter = (token, position, 0, 1), key)
    v        = (coarse + (fine + 1/2) / 2^64) / 2^16          uniform in (0, 1)
    variate  = -log(1 - v)                                    exponential with mean 1
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85  # golden ratio, sqrt(3) - 1
_ROUNDS = 10
_LANES = 8  # coarse values in one Philox block


def philox4x32(counter: Words, key: tuple[int, int]) -> Words:
    """Ten rounds of Philox4x32 over 32-bit words held in uint64.

    `counter` holds four words in its first axis, shape (4, ...); the result has its shape.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        product0 = c0 * _MULTIPLIERS[0]
        product1 = c2 * _MULTIPLIERS[1]
        c0 = (product1 >> _HALF) ^ c1 ^ np.uint64(k0)
        c1 = product1 & _LOW
        c2 = (product0 >> _HALF) ^ c3 ^ np.uint64(k1)
        c3 = product0 & _LOW
        k0 = (k0 + _KEY_STEPS[0]) & 0xFFFFFFFF
        k1 = (k1 + _KEY_STEPS[1]) & 0xFFFFFFFF
    return np.stack((c0, c1, c2, c3))


class Noise:
    """The noise of one seed."""

    def __init__(self, seed: int) -> None:
        """`seed` is in [0, 2^64)."""
        self._key = seed & 0xFFFFFFFF, seed >> 32

    def coarse(self, position: int, tokens: NDArray[np.int32]) -> NDArray[np.float64]:
        """Lower bounds of the variates, coarse / 2^16, for ascending `tokens`; shape (n,).

        Cheap over a whole vocabulary: one Philox block serves eight neighbouring tokens.
        """
        first = int(tokens[0]) // _LANES
        blocks = self._blocks(np.arange(first, int(tokens[-1]) // _LANES + 1), position, stage=0)
        lanes = blocks.T.astype("<u4", order="C").view("<u2").ravel()
        bounds: NDArray[np.float64] = lanes[tokens - first * _LANES] / 2.0**16
        return bounds

    def exponential(self, position: int, tokens: NDArray[np.int32]) -> NDArray[np.float64]:
        """The exponential variates of `tokens` at `position`; shape (n,)."""
        lane = tokens % _LANES
        words = self._blocks(tokens // _LANES, position, stage=0)[lane // 2, np.arange(len(tokens))]
        coarse = (words >> (lane % 2 * 16).astype(np.uint64)) & np.uint64(0xFFFF)
        low, high, _, _ = self._blocks(tokens, position, stage=1)
        fine = (high + (low + 0.5) / 2.0**32) / 2.0**32
        variates: NDArray[np.float64] = -np.log1p(-(coarse + fine) / 2.0**16)
        return variates

    def _blocks(self, index: NDArray[np.integer[Any]], position: int, stage: int) -> Words:
        counter = np.zeros((4, len(index)), dtype=np.uint64)
        counter[0], counter[1], counter[3] = index, position, stage
        return philox4x32(counter, self._key)
