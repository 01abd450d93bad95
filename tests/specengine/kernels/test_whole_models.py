"""What the kernels are for: logits that do not depend on how a text was cut into passes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from specengine.cache.context import Context
from specengine.cache.widths import rows_agree
from specengine.core.cancel import AbortFlag
from specengine.llama.backends import OWN_KERNELS
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from specengine.load.served import ServedModel, ServeOptions
from support.ggml_products import buffer_types


@pytest.fixture(autouse=True)
def own_kernels() -> None:
    if OWN_KERNELS not in buffer_types():
        pytest.skip("this build, or this CPU, has no kernels of ours")


@pytest.mark.parametrize("length", [100, 700])
def test_logits_have_the_same_bits_in_passes_of_any_width(tiny_model: Path, length: int) -> None:
    """From 512 cells of the cache on, llama.cpp's attention has another way for one row."""
    rows = 17
    with (
        LlamaModel(tiny_model) as model,
        LlamaKVCache(model, n_ctx=1024, n_threads=2, abort=AbortFlag()) as cache,
    ):
        context = Context(cache)
        text = np.random.default_rng(0).integers(0, context.n_vocab, length + rows).tolist()
        expected = context.logits(text, last=rows).copy()
        for width in (1, 2, 3, 4, 8, 16):
            context.logits(text[:length])
            for start in range(0, rows, width):
                end = min(start + width, rows)
                logits = context.logits(text[: length + end], last=end - start)
                assert np.array_equal(logits, expected[start:end]), width
        assert rows_agree(context, text, step=1), "wherever the text before is cut"


def test_a_server_pads_nothing_and_its_sessions_do_not_depend_on_each_other(
    tiny_model: Path,
) -> None:
    with closing(
        ServedModel(tiny_model, ServeOptions(n_ctx=1024, places=3, n_threads=2))
    ) as served:
        assert served.step == 1
