"""Near-ties: where another width of a pass may choose another token, and how close the choice was.

Kernels round a row differently in passes of different width, so a greedy choice between two
almost equal logits can go either way. Whether a text is the target's own up to such ties is told by
teacher-forcing all of it, not only the part before the first difference: each token is compared
with what a one-token pass says after the tokens before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specengine.cache.context import Context, Logits
from specengine.core.tokens import as_tokens
from specengine.sampling.noise import Noise

Score = Callable[[Logits, int], NDArray[np.float64]]
"""What is largest for the chosen token, shape (n_vocab,) in nats, of its logits and position."""

NEAR_TIE = 0.75
"""Nats below the maximum up to which a choice counts as a near-tie."""


@dataclass(frozen=True, slots=True)
class OtherChoice:
    """A token that is not the maximum of the one-token pass."""

    index: int
    """Position of the token, counted from the first one after the prompt."""
    token: int
    """The token id that the text has there."""
    best: int
    """The token id with the largest score of the one-token pass."""
    gap: float
    """Nats by which `token` lies below `best`."""


@dataclass(frozen=True, slots=True)
class NearTies:
    """What teacher-forcing a greedy text has shown."""

    n_tokens: int
    """Tokens that were compared."""
    others: tuple[OtherChoice, ...]
    """Those that are not the maximum of their one-token pass, in the order of the text."""

    @property
    def widest_gap(self) -> float:
        """The largest `gap` of `others` in nats; 0.0 where every token is the maximum."""
        return max((other.gap for other in self.others), default=0.0)

    @property
    def are_all(self) -> bool:
        """Whether every token lies at most NEAR_TIE nats below the maximum."""
        return self.widest_gap <= NEAR_TIE


def noisy_score(seed: int, n_vocab: int) -> Score:
    """The score of texts that were drawn with shared noise, at temperature 1 and untruncated."""
    noise, ids = Noise(seed), np.arange(n_vocab, dtype=np.int32)

    def score(row: Logits, position: int) -> NDArray[np.float64]:
        return row.astype(np.float64) - np.log(noise.exponential(position, ids))

    return score


def teacher_force(
    context: Context,
    prompt: Sequence[int],
    tokens: Sequence[int],
    score: Score | None = None,
) -> NearTies:
    """Compare each of greedy `tokens` after `prompt` with the largest logit of a one-token pass of
    `context` over the tokens before it; returns those that differ, with their gaps.

    `score` is for texts that were chosen otherwise than by the largest logit, with shared noise for
    instance. Leaves `context` without padding and raises what `Context.logits` raises.
    """
    context.forget()
    context.width_step = 1
    sequence = np.concatenate((as_tokens(prompt), as_tokens(tokens)))
    others = []
    for i, token in enumerate(tokens):
        position = len(prompt) + i
        row: NDArray[Any] = context.logits(sequence[:position])[0]
        if score is not None:
            row = score(row, position)
        best = int(row.argmax())
        gap = float(row[best]) - float(row[token])
        if gap > 0:
            others.append(OtherChoice(i, token, best, gap))
    return NearTies(len(tokens), tuple(others))
