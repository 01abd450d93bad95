"""The best tokens that a grammar allows, without asking it about a whole vocabulary.

Asking a llama.cpp grammar costs some 50 ms for 150 thousand tokens and .1 ms for 40. So tokens are
asked about from the best down, until those that are left can no longer matter. The outcome is that
of masking everything first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from specengine.core.errors import NothingToDrawError
from specengine.sampling.params import SamplingParams
from specengine.sampling.truncation import top_k

Allowed = Callable[[NDArray[np.int32]], NDArray[np.bool_]]

_FIRST_BATCH = 64
_GROWTH = 8


def allowed_candidates(
    row: NDArray[np.float32], allowed: Allowed, params: SamplingParams
) -> NDArray[np.int32]:
    """The top-k allowed token ids, ascending; fewer where truncation drops the others anyway.

    `row` (n_vocab,) holds logits, `allowed` tells which of some ids the grammar takes. Raises
    NothingToDrawError where it takes none that has a finite logit.
    """
    wanted = params.top_k or len(row)
    found = np.empty(0, dtype=np.int32)  # descending by logit
    asked, size = 0, _FIRST_BATCH
    while True:
        best = top_k(row, size)
        batch = best[(-row[best]).argsort(kind="stable")][asked:].astype(np.int32)
        found = np.concatenate((found, batch[allowed(batch)]))[:wanted]
        asked, size = len(best), size * _GROWTH
        unseen, bound = min(wanted - len(found), len(row) - asked), float(row[batch[-1]])
        if unseen == 0 or bound == -np.inf:
            break
        if len(found) and _settled(row[found], unseen, bound, params):
            break
    if not len(found) or np.isneginf(row[found[0]]):
        raise NothingToDrawError(
            "the grammar allows none of this model's tokens"
            + (" that the logit bias leaves" if params.logit_bias else "")
        )
    return np.sort(found)


def _settled(found: NDArray[np.float32], unseen: int, bound: float, params: SamplingParams) -> bool:
    """Whether truncation keeps a known part of `found` and nothing else, whatever is unseen.

    `found` are descending logits; at most `unseen` others follow, none above `bound`.
    """
    if params.typical_p < 1:
        return False
    if params.temperature == 0:
        return True
    best = float(found[0])
    cumulative = np.exp(found - found[0], dtype=np.float64).cumsum()
    # The nucleus ends where the mass reaches top_p of all mass, which is known up to the unseen.
    seen_mass = cumulative[-1]
    all_mass = seen_mass + unseen * np.exp(bound - best)
    shortest, longest = cumulative.searchsorted(params.top_p * np.array([seen_mass, all_mass])) + 1
    floor = best + np.log(params.min_p) if params.min_p > 0 else -np.inf
    above = int((found >= floor).sum())
    ends = (longest <= len(found) and params.top_p < 1) or bound < floor
    return bool(ends and min(shortest, above) == min(longest, above))
