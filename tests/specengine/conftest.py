"""Fixtures for tests of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from specengine.cancel import AbortFlag
from specengine.context import Context
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from support.smollm import TEXT, SmolLM


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
