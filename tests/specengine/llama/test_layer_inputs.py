"""The inputs of a real model's layers, row for row those of the tokens that its cache holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest

from specengine.cache.context import Context
from specengine.core.cancel import AbortFlag
from specengine.core.errors import CancelledError
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.layer_inputs import LayerInputs
from specengine.llama.model import LlamaModel
from specengine.llama.recurrent_cache import RecurrentKVCache
from support.tiny_models import VOCABULARY, write_lfm2

pytestmark = pytest.mark.kernels

N_EMBD = 576
MIDDLE = slice(N_EMBD, 2 * N_EMBD)
TEXT = [(37 * i + i * i) % 900 + 20 for i in range(90)]
# Of values with a standard deviation of 2 and single ones of thousands: rounding differs by width.
TOLERANCE = 0.05


@pytest.fixture(scope="module")
def embeddings(tiny_model: Path) -> np.ndarray:
    """SmolLM2's token embeddings of TEXT, dequantized by the package gguf."""
    reader = gguf.GGUFReader(tiny_model)
    tensor = next(t for t in reader.tensors if t.name == "token_embd.weight")
    return gguf.dequantize(tensor.data[TEXT], tensor.tensor_type)


@pytest.fixture
def context(tiny_model: Path) -> Iterator[tuple[Context, LlamaKVCache, AbortFlag]]:
    abort = AbortFlag()
    with (
        LlamaModel(tiny_model) as model,
        LlamaKVCache(model, n_ctx=256, n_threads=2, abort=abort, n_batch=32) as cache,
    ):
        yield Context(cache), cache, abort


def record(context: Context, cache: LlamaKVCache) -> None:
    context.record(LayerInputs(cache.handle, [0, 15, 27], N_EMBD))


def test_the_input_of_the_first_layer_is_the_embedding_over_all_chunks_of_a_prompt(
    context: tuple[Context, LlamaKVCache, AbortFlag], embeddings: np.ndarray
) -> None:
    engine, cache, _ = context
    plain = engine.logits(TEXT, last=5).copy()
    record(engine, cache)
    assert np.array_equal(engine.logits(TEXT, last=5), plain)
    assert engine.features.shape == (len(TEXT), 3 * N_EMBD)
    assert np.allclose(engine.features[:, :N_EMBD], embeddings, atol=1e-6)
    assert np.abs(engine.features[1:, MIDDLE]).mean() > 0.1


def test_rows_follow_rejections_and_another_turn(
    context: tuple[Context, LlamaKVCache, AbortFlag],
) -> None:
    engine, cache, _ = context
    record(engine, cache)
    engine.logits(TEXT)
    whole = engine.features.copy()
    engine.logits([*TEXT[:50], 5, 6, 7, 8], last=5)  # a draft …
    engine.logits([*TEXT[:50], 5, 9], last=1)  # … of which one token stood
    turned = engine.features[:52, MIDDLE].copy()
    engine.logits(TEXT, last=9)
    assert np.allclose(engine.features[:50], whole[:50], atol=TOLERANCE)
    assert np.allclose(engine.features[50:, MIDDLE], whole[50:, MIDDLE], atol=TOLERANCE)
    assert np.abs(turned[50:] - whole[50:52, MIDDLE]).max() > 1
    assert np.array_equal(turned[:50], whole[:50, MIDDLE])


def test_a_cancelled_pass_leaves_no_row_without_its_token(
    context: tuple[Context, LlamaKVCache, AbortFlag], embeddings: np.ndarray
) -> None:
    engine, cache, abort = context
    record(engine, cache)

    def cancel(done: int, total: int) -> None:
        abort.set()

    with pytest.raises(CancelledError):
        engine.logits(TEXT, on_progress=cancel)
    assert len(engine.features) == len(engine.tokens) == 32
    abort.clear()
    engine.logits(TEXT)
    assert np.allclose(engine.features[:, :N_EMBD], embeddings, atol=1e-6)


def test_a_hybrid_model_records_too_and_its_recurrent_state_stays_right(tmp_path: Path) -> None:
    text = [t % VOCABULARY for t in TEXT]
    with (
        LlamaModel(write_lfm2(tmp_path / "lfm2.gguf")) as model,
        RecurrentKVCache(
            model, n_ctx=256, n_threads=1, abort=AbortFlag(), n_batch=32, max_rows=9
        ) as cache,
    ):
        context = Context(cache)
        context.record(LayerInputs(cache.handle, [0, 1, 2], 32))
        context.logits(text, last=4)
        whole = context.features.copy()
        context.logits([*text[:-2], 1], last=2)
        context.logits(text, last=3)
        assert len(context.features) == len(text)
        assert np.allclose(context.features, whole, atol=1e-3)
