"""Near-ties: where another width of a pass may choose another token, and how close the choice was.

Kernels round a row differently in passes of different width, so a greedy choice between two
almost equal logits can go either way. Whether a text is the target's own up to such ties is told by
teacher-forcing all of it, not only the part before the first difference: each token is compared
with what a one-token pass says after the tokens before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specengine.context import Context
from specengine.sequence import as_tokens

NEAR_TIE = 0.75
"""Nats below the maximum up to which a choice counts as a near-tie."""


@dataclass(frozen=True, slots=True)
class OtherChoice:
    """A token that is not the maximum of the one-token pass."""

    index: int
    """In the text after the prompt."""
    token: int
    best: int
    gap: float
    """Nats by which `token` lies below `best`."""


@dataclass(frozen=True, slots=True)
class NearTies:
    """What teacher-forcing a greedy text has shown."""

    n_tokens: int
    others: tuple[OtherChoice, ...]

    @property
    def widest_gap(self) -> float:
        return max((other.gap for other in self.others), default=0.0)

    @property
    def are_all(self) -> bool:
        """Whether every token is the maximum or a near-tie with it."""
        return self.widest_gap <= NEAR_TIE


def teacher_force(
    context: Context,
    prompt: Sequence[int],
    tokens: Sequence[int],
    on_token: Callable[[int], None] | None = None,
) -> NearTies:
    """Compare greedy `tokens` after `prompt` with one-token passes of `context`.

    `on_token` is called with each number of tokens done. Leaves `context` without padding and
    raises what `Context.logits` raises.
    """
    context.forget()
    context.width_step = 1
    sequence = np.concatenate((as_tokens(prompt), as_tokens(tokens)))
    others = []
    for i, token in enumerate(tokens):
        row = context.logits(sequence[: len(prompt) + i])[0]
        best = int(row.argmax())
        gap = float(row[best]) - float(row[token])
        if gap > 0:
            others.append(OtherChoice(i, token, best, gap))
        if on_token is not None:
            on_token(i + 1)
    return NearTies(len(tokens), tuple(others))
