"""A scripted head that fails loudly when misused, beside a scripted target."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from specengine.cache.context import Context, Logits
from specengine.cache.features import Features
from specengine.cache.head_context import HeadContext
from specengine.core.tokens import Tokens
from support.fakes import FakeKVCache

WIDTH = 2


class TextFeatures:
    """A row says what the text up to its token was: its length, and a hash of it."""

    name = "text"
    width = WIDTH

    def __init__(self, cache: FakeKVCache) -> None:
        self._cache = cache

    def read(self, n_tokens: int, into: Features) -> None:
        start = len(self._cache.held) - self._cache.widths[-1]
        for i in range(n_tokens):
            text = self._cache.held[: start + i + 1]
            into[i] = len(text), sum((7 * j + 1) * (t + 1) for j, t in enumerate(text)) % 97


class FakeHead:
    """Its logits are those of a random model of all rows in its cache: a wrong one is seen."""

    width = WIDTH
    longest: int | None = None

    def __init__(
        self, n_vocab: int, *, n_ctx: int = 256, n_batch: int = 4, seed: int = 5, masked: int = 0
    ) -> None:
        """The first `masked` ids are none of its tokens."""
        self.n_ctx, self.n_vocab, self.n_batch = n_ctx, n_vocab, n_batch
        self.decode_s = 0.0
        self.rows: list[tuple[int, int]] = []
        self.before_decode: Callable[[], None] = lambda: None
        """Called in the middle of each pass: raise here to break it after half of its rows."""
        self.widths: list[int] = []
        self._seed, self._masked = seed, masked
        self._drafted = 0

    def fuse(self, features: Features) -> Features:
        assert 1 <= len(features) <= self.n_batch
        assert features.shape[1] == WIDTH
        self.decode_s += 0.001
        fused: Features = features.sum(axis=1, keepdims=True)
        return fused

    def decode(
        self, tokens: Tokens, hidden: Features, pos: int, *, drafted: int, last: bool
    ) -> tuple[Logits, Features] | None:
        n = len(tokens)
        assert 1 <= n == len(hidden) <= self.n_batch
        assert pos == len(self.rows), f"a gap: row {pos}, cache holds {len(self.rows)}"
        assert pos + n <= self.n_ctx, "no free cell"
        assert drafted in (0, self._drafted + 1), f"draft token {drafted} after {self._drafted}"
        self._drafted = drafted
        self.decode_s += 0.001
        self.widths.append(n)
        new = [(int(t), int(h[0])) for t, h in zip(tokens, hidden, strict=True)]
        self.rows += new[: n // 2]
        self.before_decode()
        self.rows += new[n // 2 :]
        if not last:
            return None
        rng = np.random.default_rng([self._seed, *(x for row in self.rows for x in row)])
        logits = (2 * rng.standard_normal(self.n_vocab)).astype(np.float32)
        logits[: self._masked] = -np.inf
        return logits, np.array([[rng.integers(1000)]], dtype=np.float32)

    def truncate(self, length: int) -> None:
        del self.rows[length:]


def head_beside(target: FakeKVCache, head: FakeHead) -> tuple[Context, HeadContext]:
    context = Context(target)
    context.record(TextFeatures(target))
    return context, HeadContext(head, context)
