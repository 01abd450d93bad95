"""The draft vocabulary: the ids that the target is likeliest to write."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def choose(expected: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """The `size` ids with the largest `expected` counts, ascending."""
    if size > len(expected):
        raise ValueError(f"a draft vocabulary of {size} of {len(expected)} ids")
    return np.sort(np.argsort(-expected, kind="stable")[:size]).astype(np.int64)


def inverse(ids: NDArray[np.int64], n_vocab: int) -> NDArray[np.int64]:
    """The draft id of each target id, −1 where it has none; shape (n_vocab,)."""
    draft_ids = np.full(n_vocab, -1, dtype=np.int64)
    draft_ids[ids] = np.arange(len(ids))
    return draft_ids
