"""A session's logits do not depend on its neighbours: the ground that a server's texts stand on."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from specengine.cache.context import Context, Logits
from specengine.core.cancel import AbortFlag
from specengine.core.tokens import Tokens
from specengine.llama.batch_cache import LlamaBatchCache
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from specengine.serve.batch_cache import padded_part
from specengine.serve.stable_parts import measure_part_step
from support.random_text import random_tokens

N = 24


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Iterator[LlamaModel]:
    with LlamaModel(tiny_model) as loaded:
        yield loaded


def test_rows_among_neighbours_are_bit_for_bit_those_of_the_sequence_alone(
    model: LlamaModel,
) -> None:
    text, other, third = (random_tokens(model.vocab.size, 300, seed) for seed in (1, 2, 3))
    abort = AbortFlag()
    cache = LlamaBatchCache(model, n_sequences=3, n_ctx=512, n_threads=2, abort=abort, max_rows=16)
    step = measure_part_step(cache)
    if step is None:
        pytest.skip("no width of passes is stable with these kernels")
    alone = LlamaKVCache(model, n_ctx=64, n_threads=2, abort=abort)
    expected = Context(alone, width_step=step).logits(text[:N], last=12).copy()
    alone.close()

    def decode(*parts: tuple[int, Tokens, int, int]) -> Logits:
        """The rows of the last part."""
        padded = [padded_part(s, tokens, pos, step, n_rows=n) for s, tokens, pos, n in parts]
        rows = cache.decode(padded)[-1].copy()
        for sequence, tokens, pos, _ in parts:
            cache.truncate(sequence, pos + len(tokens))
        return rows

    # A neighbour beyond 256 tokens, one that is reading, and wrong hints that were taken back.
    decode((0, other[:270], 0, 0))
    decode((2, text[:8], 0, 0), (1, third[:20], 0, 0))
    decode((0, other[270:273], 270, 1), (2, text[8:13], 8, 1))
    decode((2, np.append(text[13:14], third[:4]), 13, 2))
    cache.truncate(2, 13)
    found = [
        decode((1, third[20:50], 20, 0), (2, text[13:15], 13, 2)),
        decode((0, other[273:275], 273, 2), (2, text[15:N], 15, N - 15)),
    ]
    cache.close()
    assert np.array_equal(np.concatenate(found), expected[-11:])


def test_a_sequence_can_be_emptied_and_used_again(model: LlamaModel) -> None:
    text, other = (random_tokens(model.vocab.size, 20, seed) for seed in (4, 5))
    cache = LlamaBatchCache(
        model, n_sequences=2, n_ctx=64, n_threads=2, abort=AbortFlag(), max_rows=4
    )
    first = cache.decode([padded_part(0, text, 0, 1, n_rows=1)])[0].copy()
    cache.decode([padded_part(1, other, 0, 1, n_rows=0)])
    cache.truncate(1, 0)
    again = cache.decode([padded_part(1, text, 0, 1, n_rows=1)])[0].copy()
    cache.close()
    assert np.array_equal(first, again)
