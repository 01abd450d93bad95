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
_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], dtype=np.uint64)
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85  # golden ratio, sqrt(3) - 1
_ROUNDS = 10
_LANES = 8  # coarse values in one Philox block


def key_schedule(seed: int) -> Words:
    """The key words of every round, shape (rounds, 2, 1), for `seed` in [0, 2^64)."""
    words = seed & 0xFFFFFFFF, seed >> 32
    schedule = [
        [[(word + i * step) & 0xFFFFFFFF] for word, step in zip(words, _KEY_STEPS, strict=True)]
        for i in range(_ROUNDS)
    ]
    return np.array(schedule, dtype=np.uint64)


def philox4x32(counter: Words, schedule: Words) -> Words:
    """Philox4x32-10 of 32-bit words held in uint64: shape (4, n) to (4, n)."""
    even, odd = counter[::2].copy(), counter[1::2]
    product, low = np.empty_like(even), np.empty_like(even)
    for key in schedule:
        np.multiply(even, _MULTIPLIERS, out=product)
        np.right_shift(product[::-1], _HALF, out=even)
        even ^= odd
        even ^= key
        np.bitwise_and(product, _LOW, out=low)
        odd = low[::-1]
    return np.stack((even[0], odd[0], even[1], odd[1]))


class Noise:
    """The noise of one seed."""

    def __init__(self, seed: int) -> None:
        self._schedule = key_schedule(seed)

    def coarse(self, position: int, tokens: NDArray[np.int32]) -> NDArray[np.uint16]:
        """The coarse parts of the variates' uniforms, for ascending `tokens`; shape (n,). Divided
        by 2^16 they are lower bounds of the variates.

        Cheap over a whole vocabulary: one Philox block serves eight neighbouring tokens.
        """
        first, last = int(tokens[0]), int(tokens[-1])
        begin = first // _LANES
        blocks = self._blocks(np.arange(begin, last // _LANES + 1), position, stage=0)
        words = np.empty((blocks.shape[1], 4), dtype="<u4")
        for i, word in enumerate(blocks):
            words[:, i] = word
        lanes = words.view("<u2").ravel()
        if last - first + 1 == len(tokens):  # no gaps: no need to gather
            start = first - begin * _LANES
            return lanes[start : start + len(tokens)]
        return lanes[tokens - begin * _LANES]

    def exponential(self, position: int, tokens: NDArray[np.int32]) -> NDArray[np.float64]:
        """The exponential variates of `tokens` at `position`; shape (n,)."""
        n, lane = len(tokens), tokens % _LANES
        index = np.concatenate((tokens // _LANES, tokens))
        blocks = self._blocks(index, position, stage=np.repeat((0, 1), n))
        word = blocks[lane // 2, np.arange(n)]
        coarse = (word >> (lane % 2 * 16).astype(np.uint64)) & np.uint64(0xFFFF)
        low, high = blocks[:2, n:]
        fine = (high + (low + 0.5) / 2.0**32) / 2.0**32
        variates: NDArray[np.float64] = -np.log1p(-(coarse + fine) / 2.0**16)
        return variates

    def _blocks(
        self, index: NDArray[np.integer[Any]], position: int, stage: int | NDArray[np.int_]
    ) -> Words:
        counter = np.zeros((4, len(index)), dtype=np.uint64)
        counter[0], counter[1], counter[3] = index, position, stage
        return philox4x32(counter, self._schedule)
