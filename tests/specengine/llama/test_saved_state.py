"""A cache that was copied and restored goes on as the one that was copied, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specengine.cache.context import Context, SavedCache
from specengine.core.cancel import AbortFlag
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from specengine.llama.recurrent_cache import RecurrentKVCache
from support.tiny_models import VOCABULARY, WRITERS

pytestmark = pytest.mark.kernels

N_CTX = 256
MAX_ROWS = 17


@pytest.fixture(scope="module", params=["smollm2", *WRITERS])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaModel]:
    if request.param == "smollm2":
        path: Path = request.getfixturevalue("tiny_model")
    else:
        path = WRITERS[request.param](tmp_path_factory.mktemp("models") / "model.gguf")
    with LlamaModel(path) as model:
        yield model


@pytest.fixture
def contexts(model: LlamaModel) -> Iterator[tuple[Context, Context]]:
    kind = RecurrentKVCache if model.is_recurrent else LlamaKVCache
    options: dict[str, Any] = {
        "n_ctx": N_CTX,
        "n_threads": 2,
        "abort": AbortFlag(),
        "max_rows": MAX_ROWS,
    }
    with kind(model, **options) as first, kind(model, **options) as second:
        yield Context(first), Context(second)


def text(n: int) -> list[int]:
    return [(7 * i + i * i) % VOCABULARY for i in range(n)]


def test_what_follows_a_restored_state_is_bit_for_bit_what_follows_the_live_one(
    contexts: tuple[Context, Context],
) -> None:
    live, restored = contexts
    tokens = text(150)
    # As a chat leaves it: a prompt, rounds, and a rejected draft at the end.
    live.logits(tokens[:60])
    for n in range(61, 130, 4):
        live.logits(tokens[: n + 3], last=4)
    live.logits([*tokens[:129], 3, 1, 4, 1, 5], last=6)
    saved = live.save(tokens)
    assert saved is not None
    assert saved.tokens.tolist() == tokens[: len(saved.tokens)]
    assert len(saved.tokens) > 100
    assert restored.restore(saved)
    for n in (130, 140, 141, 150):
        before = live.passes, restored.passes
        expected = live.logits(tokens[:n], last=3).copy()
        assert np.array_equal(restored.logits(tokens[:n], last=3), expected)
        assert restored.passes - before[1] == live.passes - before[0] <= 2


def test_rolling_back_behind_what_was_restored_is_evaluated_right(
    contexts: tuple[Context, Context],
) -> None:
    live, restored = contexts
    live.logits(text(120))
    saved = live.save(text(120))
    assert saved is not None
    restored.restore(saved)
    other = [*text(50), 9, 8, 7]
    expected = live.logits(other, last=3).copy()
    assert np.allclose(restored.logits(other, last=3), expected, atol=1e-3)


@pytest.mark.parametrize("damage", ["shorter", "longer", "other"])
def test_a_state_that_llama_cpp_refuses_leaves_an_empty_cache(
    contexts: tuple[Context, Context], damage: str
) -> None:
    live, restored = contexts
    live.logits(text(60))
    saved = live.save(text(60))
    assert saved is not None
    state = {
        "shorter": saved.state[: saved.state.nbytes // 2],
        "longer": np.append(saved.state, np.zeros(8, dtype=np.uint8)),
        "other": np.zeros_like(saved.state),
    }[damage].copy()
    assert not restored.restore(SavedCache(saved.tokens, 1, state))
    assert restored.tokens.tolist() == []
    live.forget()
    assert np.array_equal(restored.logits(text(60)), live.logits(text(60)))
