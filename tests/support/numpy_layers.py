"""What layers of a transformer compute, by definition: in NumPy, all rows at once, in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EPSILON = 1e-5
ROPE_BASE = 10000.0


def rms_norm(x: Array, weight: Array) -> Array:
    scale = np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + EPSILON)
    result: Array = x / scale * weight
    return result


def gated(gate: Array, up: Array) -> Array:
    """What goes on in a feed-forward layer: `up`, gated by a SiLU of `gate`."""
    result: Array = gate / (1 + np.exp(-gate)) * up
    return result


def later(n: int) -> NDArray[np.bool_]:
    """For each of `n` rows, those after it, which causal attention hides; shape (n, n)."""
    return np.triu(np.ones((n, n), dtype=bool), 1)


def attention(q: Array, k: Array, v: Array, hidden: NDArray[np.bool_]) -> Array:
    """Several heads of `q` (n, heads, dim) share one of `k` and `v` (m, heads_kv, dim).

    `hidden` (n, m) tells which row sees which not. The result has the shape (n, heads * dim).
    """
    n, heads, dim = q.shape
    k, v = (np.repeat(each, heads // each.shape[1], axis=1) for each in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) / dim**0.5
    scores[:, hidden] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    result: Array = np.einsum("hij,jhd->ihd", weights, v).reshape(n, heads * dim)
    return result


def rotated_pairs(x: Array) -> Array:
    """Rotary positions over neighbouring pairs, row i at position i; shape (n, heads, dim)."""
    n, _, dim = x.shape
    cos, sin = _turns(0, n, dim)
    even, odd = x[..., 0::2], x[..., 1::2]
    result = np.empty_like(x)
    result[..., 0::2] = even * cos - odd * sin
    result[..., 1::2] = even * sin + odd * cos
    return result


def rotated_halves(x: Array, *, start: int = 0, width: int | None = None) -> Array:
    """Rotary positions over the two halves of the first `width` numbers of each head (all, if
    None), row i at position start + i; shape (n, heads, dim).
    """
    n, _, dim = x.shape
    width = width or dim
    cos, sin = _turns(start, n, width)
    one, two, rest = x[..., : width // 2], x[..., width // 2 : width], x[..., width:]
    return np.concatenate((one * cos - two * sin, one * sin + two * cos, rest), axis=-1)


def _turns(start: int, n: int, dim: int) -> tuple[Array, Array]:
    """Cosine and sine of the angles of n positions, shape (n, 1, dim / 2) each."""
    angle = np.arange(start, start + n)[:, None] * ROPE_BASE ** (-np.arange(0, dim, 2) / dim)
    return np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
