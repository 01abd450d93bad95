"""What a cache owes to whoever counts on it: it holds what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from specengine.cache.context import Context
from specengine.core.cancel import AbortFlag
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from support.tiny_models import VOCABULARY, write_gemma3, write_mamba

TOKENS = np.arange(20, dtype=np.int32) % VOCABULARY


def cache_of(model: LlamaModel) -> LlamaKVCache:
    return LlamaKVCache(model, n_ctx=256, n_threads=2, abort=AbortFlag(), max_rows=4)


def test_of_a_model_with_a_sliding_window_nothing_is_saved(tmp_path: Path) -> None:
    with LlamaModel(write_gemma3(tmp_path / "model.gguf")) as model, cache_of(model) as cache:
        context = Context(cache)
        context.logits(TOKENS)
        assert context.save(TOKENS) is None


@pytest.mark.parametrize("write", [write_gemma3, write_mamba])
def test_a_cache_holds_what_it_says_after_it_was_cut(
    tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    """Also one that cannot be cut there: it is empty then, and what follows starts anew."""
    with LlamaModel(write(tmp_path / "model.gguf")) as model, cache_of(model) as cache:
        for start in (0, 10):
            expected = cache.decode(TOKENS[start : start + 10], start, slice(9, 10)).copy()
        left = cache.truncate(10)
        assert left in (0, 10)
        assert cache.length() == left
        for start in range(left, 20, 10):
            again = cache.decode(TOKENS[start : start + 10], start, slice(9, 10))
        assert np.array_equal(again, expected)
