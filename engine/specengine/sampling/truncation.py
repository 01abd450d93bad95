"""Which tokens may be drawn at all: top-k, typical-p, top-p and min-p.

Every function takes logits of shape (n,) and returns the indices to keep, ascending. Among equals
the lower index is kept, so that the result is a function of the logits alone. The meanings are
those of llama.cpp's samplers (src/llama-sampler.cpp).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]
Logits = NDArray[np.floating[Any]]

_BLOCKS = 64


def softmax(logits: Logits, temperature: float = 1.0) -> NDArray[np.float64]:
    """Probabilities in float64; needs at least one finite logit and none above infinity."""
    probs: NDArray[np.float64] = np.subtract(logits, logits.max(), dtype=np.float64)
    if temperature != 1:
        with np.errstate(over="ignore"):  # near 0 all but the best go to -inf, as they should
            probs /= temperature
    np.exp(probs, out=probs)
    probs /= probs.sum()
    return probs


def top_k(logits: Logits, k: int) -> Indices:
    """The k largest logits."""
    n = len(logits)
    if k >= n:
        return np.arange(n)
    # The k-th largest of some maxima is a bound that at least k logits reach. Only the columns
    # whose maximum reaches it have to be looked into: the vocabulary is read once.
    width = n // _BLOCKS
    if width < k:
        return _largest(logits, k)
    maxima = logits[: width * _BLOCKS].reshape(_BLOCKS, width).max(axis=0)
    bound = np.partition(maxima, width - k)[width - k]
    columns = np.flatnonzero(maxima >= bound)
    inside = (np.arange(0, width * _BLOCKS, width)[:, None] + columns).ravel()
    seen = np.concatenate((inside, np.arange(width * _BLOCKS, n)))
    reaching: Indices = seen[logits[seen] >= bound]
    return reaching[_largest(logits[reaching], k)]


def _largest(values: Logits, count: int) -> Indices:
    """The `count` largest values, 1 <= count <= n."""
    n = len(values)
    smallest = np.partition(values, n - count)[n - count]
    kept = np.flatnonzero(values >= smallest)
    if surplus := len(kept) - count:
        ties = np.flatnonzero(values[kept] == smallest)
        kept = np.delete(kept, ties[-surplus:])
    return kept


def typical_p(logits: Logits, p: float) -> Indices:
    """Locally typical tokens (Meister et al. 2022): those whose surprise is nearest the entropy."""
    probs = softmax(logits)
    surprise = -np.log(np.maximum(probs, np.finfo(np.float64).tiny))
    entropy = float(probs @ surprise)
    oddness = np.abs(surprise - entropy)
    count = int(probs[oddness.argsort()].cumsum().searchsorted(p, side="right")) + 1
    return _largest(-oddness, min(count, len(probs)))


def top_p(logits: Logits, p: float) -> Indices:
    """The nucleus (Holtzman et al. 2020): the fewest most probable tokens whose mass reaches p."""
    probs = softmax(logits)
    # Tokens below (1 - p) / n hold less than 1 - p together: the nucleus is among the others, and
    # only those need sorting. Half of it leaves room for rounding.
    likely = np.flatnonzero(probs >= (1 - p) / (2 * len(probs)))
    probs = probs[likely]
    descending = np.sort(probs)[::-1]
    count = int(descending.cumsum().searchsorted(p, side="left")) + 1
    return likely[_largest(probs, min(count, len(probs)))]


def min_p(logits: Logits, p: float) -> Indices:
    """Tokens at least p times as probable as the best one."""
    return np.flatnonzero(logits >= logits.max() + np.log(p))
