"""A real EAGLE-3 head beside a real target: its logits are those of the same head in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import pytest

from specengine.cache.context import Context
from specengine.cache.head_context import HeadContext
from specengine.core.cancel import AbortFlag
from specengine.core.errors import BackendError, CancelledError
from specengine.llama.head_cache import Eagle3Cache, HeadModel
from support.eagle3_heads import NumpyHead, random_head
from support.head_files import RandomHead, write_head
from support.smollm import N_EMBD, N_VOCAB, RecordedSmolLM
from support.weights import dequantized

TEXT = [(37 * i + i * i) % 900 + 20 for i in range(150)]
Q8_0 = gguf.GGMLQuantizationType.Q8_0
HEAD = random_head(N_EMBD, N_VOCAB)


@dataclass
class Rig:
    target: Context
    head: HeadContext
    cache: Eagle3Cache
    reference: NumpyHead
    abort: AbortFlag

    def check(self, tokens: list[int], drafted: int = 0, tolerance: float = 2e-3) -> None:
        """The head's logits against the reference's; they have a standard deviation of 3."""
        text = tokens[: len(tokens) - drafted]
        if self.target.tokens.tolist()[: len(text) - 1] != text[:-1]:
            self.target.logits(text)
        expected = self.reference.logits(tokens, self.target.features, drafted)
        actual = self.head.logits(np.array(tokens, dtype=np.int32), drafted)
        masked = np.isneginf(expected)
        assert np.array_equal(np.isneginf(actual), masked)
        assert np.abs(actual[~masked] - expected[~masked]).max() < tolerance


def rigged(
    folder: Path,
    target: RecordedSmolLM,
    weights: RandomHead = HEAD,
    quantization: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
) -> Iterator[Rig]:
    path = write_head(folder / "head.gguf", weights, None, quantization=quantization)
    abort = AbortFlag()
    with HeadModel(path) as model:
        cache = Eagle3Cache(
            model,
            target.cache.handle,
            width=3 * N_EMBD,
            n_ctx=256,
            n_threads=2,
            abort=abort,
        )
        reference = NumpyHead(weights, dequantized(path), target.embeddings)
        head = HeadContext(cache, target.context)
        yield Rig(target.context, head, cache, reference, abort)
        cache.close()


@pytest.fixture
def rig(tmp_path: Path, recorded_smollm: RecordedSmolLM) -> Iterator[Rig]:
    yield from rigged(tmp_path, recorded_smollm)


def test_a_prompt_in_chunks_and_a_draft_upon_it(rig: Rig) -> None:
    rig.check(TEXT)
    assert rig.head.tokens.tolist() == TEXT
    for drafted in range(1, 6):
        rig.check([*TEXT, *range(100, 100 + drafted)], drafted)


def test_rows_of_accepted_and_rejected_draft_tokens_are_evaluated_anew(rig: Rig) -> None:
    text = list(TEXT[:80])
    rig.check(text)
    rig.check([*text, 7, 8, 9], drafted=3)
    rig.target.logits([*text, 7, 8, 9, 10], last=5)  # the target verifies a draft of four …
    text += [7, 8, 11]  # … of which two stand
    assert rig.head.missing(np.array(text, dtype=np.int32)) == 3
    rig.check(text)
    rig.check([*text, 12], drafted=1)
    rig.target.logits([*text, 12], last=2)  # all stand, and a bonus token
    rig.check([*text, 12, 13])


def test_another_turn_keeps_what_is_the_same(rig: Rig) -> None:
    rig.check(TEXT[:60])
    rig.check([*TEXT[:60], 5], drafted=1)
    turn = [*TEXT[:40], *TEXT[100:130]]
    rig.target.logits(turn)
    assert rig.head.missing(np.array(turn, dtype=np.int32)) == 30
    rig.check(turn)
    rig.check(TEXT[:60])


def test_the_same_text_again_evaluates_its_last_row(rig: Rig) -> None:
    rig.check(TEXT[:30])
    rig.check([*TEXT[:30], 5, 6], drafted=2)
    assert rig.head.missing(np.array(TEXT[:30], dtype=np.int32)) == 1
    rig.check(TEXT[:30])
    rig.check([*TEXT[:30], 6], drafted=1)  # a draft that the cache does not hold
    rig.check([*TEXT[:30], 5, 6], drafted=1)  # its first token stood meanwhile
    rig.check([*TEXT[:30], 5, 6, 7], drafted=3)  # asked for at once


@pytest.mark.parametrize(
    "weights",
    [
        pytest.param(random_head(N_EMBD, N_VOCAB, norm_before_fc=False), id="raw features"),
        pytest.param(random_head(N_EMBD, N_VOCAB, norm_before_residual=True), id="residual"),
    ],
)
def test_the_variants_of_the_head(
    tmp_path: Path, recorded_smollm: RecordedSmolLM, weights: RandomHead
) -> None:
    for rig in rigged(tmp_path, recorded_smollm, weights):
        rig.check([*TEXT[:70], 3, 4], drafted=2, tolerance=5e-3)


def test_a_quantized_head(tmp_path: Path, recorded_smollm: RecordedSmolLM) -> None:
    for rig in rigged(tmp_path, recorded_smollm, quantization=Q8_0):
        rig.check(TEXT[:70], tolerance=0.2)  # llama.cpp rounds activations to 8 bits, too
        rig.check([*TEXT[:70], 3, 4], drafted=2, tolerance=0.2)


def test_a_cancelled_pass_leaves_a_valid_cache(rig: Rig) -> None:
    rig.check(TEXT[:70])
    rig.target.logits(TEXT)
    rig.abort.set()
    with pytest.raises(CancelledError):
        rig.head.logits(np.array(TEXT, dtype=np.int32))
    rig.abort.clear()
    assert rig.head.tokens.tolist() == TEXT[:70]
    rig.check(TEXT)
    rig.abort.set()
    with pytest.raises(CancelledError):
        rig.head.logits(np.array([*TEXT, 9], dtype=np.int32), drafted=1)
    rig.abort.clear()
    rig.check([*TEXT, 9], drafted=1)


def test_what_the_target_does_not_hold_is_no_text_to_draft_for(rig: Rig) -> None:
    rig.target.logits(TEXT[:20])
    for text in (TEXT[:1], TEXT[:30], [5, *TEXT[1:20]]):
        tokens = np.array(text, dtype=np.int32)
        assert rig.head.missing(tokens) is None
        with pytest.raises(BackendError, match="lacks hidden states that the head needs"):
            rig.head.logits(tokens)
    rig.check(TEXT[:21])


def test_calibration_measures_and_leaves_the_cache_empty(rig: Rig) -> None:
    rig.check(TEXT[:20])
    rig.head.calibrate()
    assert len(rig.head.tokens) == 0
    assert set(rig.head.costs.as_dict()) >= {1, 2, 5, 9}
    assert all(0 < s < 10 for s in rig.head.costs.as_dict().values())
    rig.check(TEXT[:20])
