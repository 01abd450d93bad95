"""Heads in the target's own file: their logits are those of the same heads in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from specengine.cache.context import Context
from specengine.cache.head_context import HeadContext
from specengine.core.cancel import AbortFlag
from specengine.core.errors import CancelledError
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from specengine.llama.mtp_cache import FinalStates, MtpCache
from support.mtp_models import N_EMBD, N_VOCAB, NumpyHeads, write_step35

pytestmark = pytest.mark.kernels

TEXT = [(7 * i + i * i) % N_VOCAB for i in range(150)]


@dataclass
class Rig:
    target: Context
    heads: HeadContext
    reference: NumpyHeads
    abort: AbortFlag

    def check(self, tokens: list[int], drafted: int = 0) -> None:
        """The heads' logits against the reference's; they have a standard deviation of 3."""
        text = tokens[: len(tokens) - drafted]
        if self.target.tokens.tolist()[: len(text) - 1] != text[:-1]:
            self.target.logits(text)
        expected = self.reference.logits(tokens, self.target.features, drafted)
        actual = self.heads.logits(np.array(tokens, dtype=np.int32), drafted)
        assert np.abs(actual - expected).max() < 5e-3


@pytest.fixture(params=[1, 3], ids=["one head", "three heads"])
def rig(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rig]:
    n_heads: int = request.param
    path = write_step35(tmp_path / "model.gguf", n_heads)
    abort = AbortFlag()
    with (
        LlamaModel(path, own_heads=True) as model,
        LlamaKVCache(model, n_ctx=256, n_threads=1, abort=AbortFlag(), n_batch=50) as cache,
    ):
        context = Context(cache)
        context.record(FinalStates(cache.handle, N_EMBD))
        heads = MtpCache(model, cache.handle, n_ctx=256, n_threads=1, abort=abort)
        yield Rig(context, HeadContext(heads, context), NumpyHeads.of(path, n_heads), abort)
        heads.close()


def test_a_prompt_in_chunks_and_a_draft_upon_it(rig: Rig) -> None:
    for drafted in range(3):
        rig.check([*TEXT, *range(10, 10 + drafted)], drafted)


def test_there_are_as_many_draft_tokens_as_heads_unless_there_is_one(rig: Rig) -> None:
    assert rig.heads.longest == {1: None, 3: 3}[rig.reference.n_heads]
    if rig.heads.longest is None:
        rig.check([*TEXT[:20], 1, 2, 3, 4, 5], drafted=5)


def test_rows_of_accepted_and_rejected_draft_tokens_are_evaluated_anew(rig: Rig) -> None:
    text = TEXT[:80]
    for drafted in range(3):
        rig.check([*text, 7, 8][: 80 + drafted], drafted)
    rig.target.logits([*text, 7, 8, 9], last=4)  # the target verifies a draft of three …
    text = [*text, 7, 11]  # … of which one stands
    assert rig.heads.missing(np.array(text, dtype=np.int32)) == 2
    rig.check(text)
    rig.check([*text, 12], drafted=1)
    rig.check([*text, 13, 14], drafted=2)  # another draft, asked for at once
    turn = [*TEXT[:40], *TEXT[100:130]]
    rig.check(turn)
    rig.check([*turn, 3], drafted=1)


def test_a_cancelled_pass_leaves_a_valid_cache(rig: Rig) -> None:
    rig.check(TEXT[:70])
    rig.target.logits(TEXT)
    rig.abort.set()
    with pytest.raises(CancelledError):
        rig.heads.logits(np.array(TEXT, dtype=np.int32))
    rig.abort.clear()
    assert rig.heads.tokens.tolist() == TEXT[:70]
    rig.check(TEXT)
    rig.check([*TEXT, 9], drafted=1)


def test_recording_and_loading_heads_leaves_the_targets_own_logits(tmp_path: Path) -> None:
    path = write_step35(tmp_path / "model.gguf", 2)
    rows = []
    for own_heads in (False, True):
        with (
            LlamaModel(path, own_heads=own_heads) as model,
            LlamaKVCache(model, n_ctx=256, n_threads=1, abort=AbortFlag(), n_batch=64) as cache,
        ):
            context = Context(cache)
            if own_heads:
                context.record(FinalStates(cache.handle, N_EMBD))
            rows.append(context.logits(TEXT, last=5).copy())
    assert np.allclose(rows[0], rows[1], atol=1e-4)
