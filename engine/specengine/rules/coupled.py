"""Coupled sampling: target and drafter draw with the same noise (Daliri, Musco, Suresh 2024).

The token at a position is argmax over x of log p(x) + G(seed, position, x) with Gumbel noise G: a
draw from p (the Gumbel-max trick). A drafter that uses the same G with its own q finds the same
token with probability at least (1 - TV) / (1 + TV), TV the total variation distance of p and q. A
draft token stands iff it is the target's own, so the text is that of the seeded run without any
drafter, and q need not be known.

G = -log E with E exponential, hence the same argmax as the winner of a race: argmin of E(x) / p(x).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft, Verdict
from specengine.sampling.noise import Noise
from specengine.sampling.params import SamplingParams

# From this size of the support on it pays to look at cheap bounds first.
_LARGE = 1024
_FAVOURITE = 1 / 64  # of the highest probability: the winner is likely among these
_STEPS = 2.0**16  # of the coarse noise


def race(p: Distribution, noise: Noise, position: int) -> int:
    """The token whose exponential clock of rate p(x) rings first: a draw from `p`."""
    ids, probs = p.ids, p.probs
    if len(ids) == 1:
        return int(ids[0])
    with np.errstate(divide="ignore"):  # a probability of 0 never rings
        if len(ids) > _LARGE:
            ids, probs = _contenders(ids, probs, noise, position)
        return int(ids[(noise.exponential(position, ids) / probs).argmin()])


def _contenders(
    ids: NDArray[np.int32], probs: NDArray[np.float64], noise: Noise, position: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Those that may win the race, from lower bounds of their clocks that are cheap to compute."""
    favourites = np.flatnonzero(probs >= _FAVOURITE * probs.max())
    clocks = noise.exponential(position, ids[favourites]) / probs[favourites]
    steps = clocks.min() * _STEPS  # when the first of them rings
    # A clock rings no earlier than coarse / 2^16 / p: of the improbable only those with 0 may win.
    coarse = noise.coarse(position, ids)
    possible = np.flatnonzero((coarse == 0) | (probs >= 1 / steps))
    contending = possible[coarse[possible] <= probs[possible] * steps]
    return ids[contending], probs[contending]


def verify_coupled(
    draft: Draft, p: Callable[[int], Distribution], noise: Noise, position: int
) -> Verdict:
    """The part of the draft that the target's own draws repeat, then its first other draw."""
    for i, token in enumerate(draft.tokens):
        own = race(p(i), noise, position + i)
        if token != own:
            return Verdict(i, own)
    return Verdict(len(draft), race(p(len(draft)), noise, position + len(draft)))


class CoupledRule:
    name = "coupled"

    def __init__(self, params: SamplingParams) -> None:
        seed = secrets.randbits(64) if params.seed is None else params.seed
        self._noise = Noise(seed)

    def draw(self, q: Distribution, position: int) -> int:
        return race(q, self._noise, position)

    def verify(self, draft: Draft, p: Callable[[int], Distribution], position: int) -> Verdict:
        return verify_coupled(draft, p, self._noise, position)
