"""The law that `--reproducible` rests on. Kernels are played by a cache that rounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.cache.context import Context
from specengine.cache.widths import measure_width_step, rows_agree
from specengine.core.cancel import AbortFlag
from specengine.core.tokens import Tokens
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from support.fakes import FakeKVCache, markov

V = 8
TEXT = [(3 * i + i // 5) % V for i in range(60)]


class BlockKVCache(FakeKVCache):
    """Takes rows in blocks; those left over at the end of a pass come out a little different, and
    so does every row after one that was.
    """

    def __init__(self, block: int, n_ctx: int = 256) -> None:
        super().__init__(markov(V, seed=3), V, n_ctx=n_ctx)
        self._block = block
        self._odd: list[bool] = []

    def decode(self, tokens: Tokens, pos: int, rows: slice) -> NDArray[np.float32]:
        n = len(tokens)
        whole = n - n % self._block
        del self._odd[pos:]
        self._odd += [i >= whole for i in range(n)]
        result = super().decode(tokens, pos, rows)
        for i in range(rows.start, rows.stop):
            result[i - rows.start] += np.float32(0.01) * sum(self._odd[: pos + i + 1])
        return result


@pytest.mark.parametrize("block", [2, 4, 8, 16])
def test_the_smallest_step_that_leaves_nothing_over_is_found(block: int) -> None:
    context = Context(BlockKVCache(block))
    assert measure_width_step(context) == block
    assert [rows_agree(context, TEXT, step) for step in (1, block + 1, block, 2 * block)] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(("cells", "step"), [(1024, 1), (512, 2)])
def test_where_one_row_over_many_cells_is_computed_otherwise_the_step_is_not_1(
    cells: int, step: int
) -> None:
    class LongKVCache(BlockKVCache):
        def decode(self, tokens: Tokens, pos: int, rows: slice) -> NDArray[np.float32]:
            self._block = 1 if pos + len(tokens) < cells else 2
            return super().decode(tokens, pos, rows)

    assert measure_width_step(Context(LongKVCache(1, n_ctx=600))) == step


def test_where_no_step_helps_none_is_found() -> None:
    assert measure_width_step(Context(BlockKVCache(17))) is None


def test_the_context_is_left_empty_and_as_it_was() -> None:
    context = Context(BlockKVCache(4), width_step=3)
    rows_agree(context, TEXT, 4)
    assert len(context.tokens) == 0
    assert context.width_step == 3
    assert not context.costs


def test_a_step_that_is_found_for_a_real_model_holds_for_longer_texts(
    tiny_model: Path, smollm_step: int
) -> None:
    with (
        LlamaModel(tiny_model) as model,
        LlamaKVCache(model, n_ctx=384, n_threads=2, abort=AbortFlag()) as cache,
    ):
        context = Context(cache)
        longer = [(7 * i) % model.vocab.size for i in range(320)]
        assert rows_agree(context, longer, smollm_step)
