"""Token ids of no meaning."""

from __future__ import annotations

import numpy as np

from specengine.core.tokens import Tokens


def random_tokens(n_vocab: int, n: int, seed: int) -> Tokens:
    """Ids from the plain part of a vocabulary, shape (n,)."""
    rng = np.random.default_rng(seed)
    return rng.integers(min(300, n_vocab // 2), n_vocab, n, dtype=np.int32)
