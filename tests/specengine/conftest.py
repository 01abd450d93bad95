"""Fixtures for tests of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from specengine.cache.context import Context
from specengine.core.cancel import AbortFlag
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.layer_inputs import LayerInputs
from specengine.llama.model import LlamaModel
from support.smollm import N_EMBD, RECORDED, TEXT, RecordedSmolLM, SmolLM
from support.weights import embeddings_of


@pytest.fixture(scope="module")
def smollm(tiny_model: Path) -> Iterator[SmolLM]:
    with (
        LlamaModel(tiny_model) as model,
        LlamaKVCache(model, n_ctx=512, n_threads=2, abort=AbortFlag()) as cache,
    ):
        context = Context(cache)
        tokens = np.array(model.vocab.tokenize(TEXT), dtype=np.int32)
        rows = context.logits(tokens, last=24).copy()
        yield SmolLM(model, context, tokens, rows)


@pytest.fixture(scope="module")
def recorded_smollm(tiny_model: Path) -> Iterator[RecordedSmolLM]:
    with (
        LlamaModel(tiny_model) as model,
        LlamaKVCache(model, n_ctx=256, n_threads=2, abort=AbortFlag(), n_batch=50) as cache,
    ):
        context = Context(cache)
        context.record(LayerInputs(cache.handle, RECORDED, N_EMBD))
        yield RecordedSmolLM(context, cache, embeddings_of(tiny_model))
