"""A session's logits do not depend on its neighbours: the ground that a server's texts stand on."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from specengine.cancel import AbortFlag
from specengine.context import Context
from specengine.llama.batch_cache import LlamaBatchCache
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from specengine.sequence import Tokens
from specengine.serving.batch_cache import Part
from support.random_text import random_tokens

N = 24


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Iterator[LlamaModel]:
    with LlamaModel(tiny_model) as loaded:
        yield loaded


def part(sequence: int, tokens: Tokens, pos: int, rows: int) -> Part:
    return Part(sequence, tokens, pos, slice(len(tokens) - rows, len(tokens)))


def test_rows_among_neighbours_are_bit_for_bit_those_of_the_sequence_alone(
    model: LlamaModel,
) -> None:
    text, other, third = (random_tokens(model.vocab.size, 300, seed) for seed in (1, 2, 3))
    abort = AbortFlag()
    alone = LlamaKVCache(model, n_ctx=64, n_threads=2, abort=abort)
    expected = Context(alone, width_step=2).logits(text[:N], last=12).copy()
    alone.close()
    cache = LlamaBatchCache(model, n_sequences=3, n_ctx=512, n_threads=2, abort=abort, max_rows=16)
    # A neighbour beyond 256 tokens, one that is reading, and wrong hints that were taken back.
    cache.decode([part(0, other[:270], 0, 0)])
    cache.decode([part(2, text[:8], 0, 0), part(1, third[:20], 0, 0)])
    cache.decode([part(0, other[270:273], 270, 1), part(2, text[8:13], 8, 1)])
    cache.decode([part(2, np.append(text[13:14], third[:4]), 13, 2)])
    cache.truncate(2, 13)
    _, rows = cache.decode([part(1, third[20:50], 20, 0), part(2, text[13:15], 13, 2)])
    found = [rows.copy()]
    _, rows = cache.decode([part(0, other[273:275], 273, 2), part(2, text[15:N], 15, N - 15)])
    found.append(rows.copy())
    cache.close()
    assert np.array_equal(np.concatenate(found)[-11:], expected[-11:])


def test_a_sequence_can_be_emptied_and_used_again(model: LlamaModel) -> None:
    text, other = (random_tokens(model.vocab.size, 20, seed) for seed in (4, 5))
    cache = LlamaBatchCache(
        model, n_sequences=2, n_ctx=64, n_threads=2, abort=AbortFlag(), max_rows=4
    )
    first = cache.decode([part(0, text, 0, 1)])[0].copy()
    cache.decode([part(1, other, 0, 0)])
    cache.truncate(1, 0)
    again = cache.decode([part(1, text, 0, 1)])[0].copy()
    cache.close()
    assert np.array_equal(first, again)
