"""Log-probabilities of emitted tokens, from the target's row that produced them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural logarithms of the target's own probabilities: before temperature, truncation and
    penalties, so that they do not depend on how the token was drawn or drafted.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    """The most probable ids with their log-probabilities, best first."""


def token_logprobs(row: NDArray[np.float32], token: int, n: int) -> TokenLogprobs:
    """What the logits `row`, shape (n_vocab,), say of `token`, and the `n` best ids."""
    highest = float(row.max())
    log_sum = highest + float(np.log(np.exp(row.astype(np.float64) - highest).sum()))
    n = min(n, len(row))
    best = np.argpartition(row, len(row) - n)[len(row) - n :] if n else np.empty(0, np.intp)
    best = best[(-row[best]).argsort(kind="stable")]
    top = tuple((int(i), float(row[i]) - log_sum) for i in best)
    return TokenLogprobs(token, float(row[token]) - log_sum, top)
