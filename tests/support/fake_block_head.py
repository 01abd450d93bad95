"""A scripted block head that fails loudly when misused, beside a scripted target."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from specengine.cache.block_context import BlockContext
from specengine.cache.context import Context, Logits
from specengine.cache.features import Features
from support.fake_head import WIDTH, TextFeatures
from support.fakes import FakeKVCache


class FakeBlockHead:
    """Its rows are those of a random model of all features in its cache and the block's last token:
    a wrong cache is seen.
    """

    width = WIDTH

    def __init__(
        self,
        n_vocab: int,
        *,
        n_ctx: int = 256,
        n_batch: int = 4,
        longest: int = 6,
        follows: bool = False,
    ) -> None:
        """`follows`: a row depends on the draft token before it, as along a path of candidates."""
        self.n_ctx, self.n_vocab, self.n_batch, self.longest = n_ctx, n_vocab, n_batch, longest
        self.decode_s = 0.0
        self.injected: list[int] = []
        self.blocks = 0  # tokens of blocks that lie in the cache
        self.widths: list[int] = []
        self.before_pass: Callable[[], None] = lambda: None
        """Called in the middle of each pass: raise here to break it."""
        self._follows = follows

    def inject(self, features: Features, pos: int) -> None:
        assert 1 <= len(features) <= self.n_batch
        assert features.shape[1] == WIDTH
        assert not self.blocks, "a block lies where the text goes on"
        assert pos == len(self.injected), f"a gap: {pos}, cache holds {len(self.injected)}"
        new = [int(row.sum()) for row in features]
        self.injected += new[: len(new) // 2]
        self.before_pass()
        self.injected += new[len(new) // 2 :]
        self.widths.append(len(new))
        self.decode_s += 0.001

    def block(self, last: int, pos: int, k: int) -> FakeRows:
        assert 1 <= k <= self.longest
        assert pos == len(self.injected), f"a gap: {pos}, cache holds {len(self.injected)}"
        assert not self.blocks, "a block lies where another begins"
        assert pos + k + 1 <= self.n_ctx + 1, "no free cell"
        self.blocks = 1
        self.before_pass()
        self.blocks = k + 1
        self.decode_s += 0.002
        return FakeRows([*self.injected, last, k], self.n_vocab, self._follows)

    def truncate(self, length: int) -> None:
        self.blocks = 0
        del self.injected[length:]


class FakeRows:
    def __init__(self, key: list[int], n_vocab: int, follows: bool) -> None:
        self._key, self._n_vocab, self._follows = key, n_vocab, follows

    def row(self, drafted: Sequence[int]) -> Logits:
        before = drafted[-1:] if self._follows else ()
        rng = np.random.default_rng([*self._key, len(drafted), *before])
        return (2 * rng.standard_normal(self._n_vocab)).astype(np.float32)


def blocks_beside(target: FakeKVCache, head: FakeBlockHead) -> tuple[Context, BlockContext]:
    context = Context(target)
    context.record(TextFeatures(target))
    return context, BlockContext(head, context)
