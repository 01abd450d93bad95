"""Real block heads beside a real target: their rows are those of the same heads in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.cache.block_context import BlockContext
from specengine.cache.context import Context
from specengine.core.cancel import AbortFlag
from specengine.core.errors import BackendError, CancelledError
from specengine.files.block_heads import block_shape
from specengine.files.gguf import read_gguf
from specengine.llama.block_cache import BlockCache
from specengine.llama.head_cache import HeadModel
from support.block_heads import BLOCK, NumpyBlockHead, random_block_head
from support.head_files import RandomHead, write_head
from support.smollm import N_EMBD, N_VOCAB, RECORDED, RecordedSmolLM
from support.weights import dequantized

TOLERANCE = 0.3  # of quantized output matrices
TEXT = [(37 * i + i * i) % 900 + 20 for i in range(150)]


@dataclass
class Rig:
    target: Context
    head: BlockContext
    reference: NumpyBlockHead
    abort: AbortFlag

    def read(self, text: list[int]) -> NDArray[np.float32]:
        """The target's features of `text` but its last token, evaluated where it lacks them."""
        if self.target.tokens.tolist()[: len(text) - 1] != text[:-1]:
            self.target.logits(text)
        return self.target.features[: len(text) - 1]

    def check(self, text: list[int], k: int, tolerance: float = 4e-3) -> None:
        """The head's rows against the reference's; they have a standard deviation of 3."""
        features = self.read(text)
        expected = self.reference.rows(text[-1], features, k)
        rows = self.head.draft(np.array(text, dtype=np.int32), k)
        for i in range(k):
            actual = rows.row(text[:i])  # whatever was drafted before
            masked = np.isneginf(expected[i])
            assert np.array_equal(np.isneginf(actual), masked)
            assert np.abs(actual[~masked] - expected[i][~masked]).max() < tolerance
        assert self.head.tokens.tolist() == text[:-1]


@pytest.fixture
def make(tmp_path: Path, recorded_smollm: RecordedSmolLM) -> Any:
    target = recorded_smollm

    @contextmanager
    def made(head: RandomHead, **written: Any) -> Any:
        path = write_head(tmp_path / "head.gguf", head, None, **written)
        abort = AbortFlag()
        with HeadModel(path) as model:
            cache = BlockCache(
                model,
                target.cache.handle,
                block_shape(read_gguf(path)),
                width=len(RECORDED) * N_EMBD,
                n_ctx=256,
                n_threads=2,
                abort=abort,
            )
            reference = NumpyBlockHead(head, dequantized(path), target.embeddings)
            yield Rig(target.context, BlockContext(cache, target.context), reference, abort)
            cache.close()

    return made


def random_head(n_draft_vocab: int | None = 300, **settings: Any) -> RandomHead:
    return random_block_head(
        N_EMBD, N_VOCAB, layers=RECORDED, mask=7, n_draft_vocab=n_draft_vocab, **settings
    )


@pytest.fixture
def rig(make: Any) -> Iterator[Rig]:
    with make(random_head()) as rig:
        yield rig


def test_a_prompt_in_chunks_and_blocks_of_every_length(rig: Rig) -> None:
    for k in (BLOCK - 1, 1, 4):
        rig.check(TEXT, k)
    assert rig.head.longest == BLOCK - 1


def test_the_rows_of_the_target_that_stood_are_injected_once(rig: Rig) -> None:
    text = list(TEXT[:80])
    rig.check(text, 3)
    rig.target.logits([*text, 7, 8, 9, 10], last=5)  # the target verifies a draft of four …
    text += [7, 8, 11]  # … of which two stand
    assert rig.head.missing(np.array(text, dtype=np.int32)) == 3
    rig.check(text, 5)
    assert rig.head.missing(np.array(text, dtype=np.int32)) == 0
    rig.check(text, 5)  # the same text again
    rig.target.logits([*text, 12], last=2)  # all stand, and a bonus token
    rig.check([*text, 12, 13], 2)


def test_another_turn_keeps_what_is_the_same(rig: Rig) -> None:
    rig.check(TEXT[:60], 4)
    turn = [*TEXT[:40], *TEXT[100:130]]
    rig.target.logits(turn)
    assert rig.head.missing(np.array(turn, dtype=np.int32)) == 29
    rig.check(turn, 4)
    rig.check(TEXT[:60], 4)


@pytest.mark.parametrize(
    "settings",
    [
        {"attention.causal": True},
        {"attention.causal": False},
        {"attention.sliding_window": 20, "attention.sliding_window_pattern": [True, False]},
        {"rope.dimension_sections": [16, 0, 0, 0]},
    ],
    ids=lambda s: f"{next(iter(s))}={next(iter(s.values()))}",
)
def test_the_variants_of_the_head(make: Any, settings: dict[str, Any]) -> None:
    with make(random_head(**settings)) as rig:
        rig.check(TEXT, 7)
        rig.target.logits([*TEXT, 5, 6], last=3)
        rig.check([*TEXT, 5, 9], 7)


@pytest.mark.parametrize("anchored", [True, False])
def test_a_markov_head_goes_along_the_most_probable_tokens(make: Any, anchored: bool) -> None:
    head = random_head(markov=True, sample_from_anchor=anchored)
    with make(head) as rig:
        for k in (1, 3, rig.head.longest):
            rig.check(TEXT[:70], k)
        rig.check(TEXT[:75], 4)
        assert rig.head.longest == (BLOCK if anchored else BLOCK - 1)


def test_candidates_along_a_path(make: Any) -> None:
    with make(random_head(None, selector=True)) as rig:
        for text, k in ((TEXT[:70], 7), (TEXT[:70], 1), (TEXT[:72], 4)):
            expected = rig.reference.scores(text[-1], rig.read(text), k)
            rows = rig.head.draft(np.array(text, dtype=np.int32), k)
            before = {text[-1]}
            for i, (logits, scores) in enumerate(expected):
                wanted = {c for _, c in scores}
                least = min(logits[c] for c in wanted)
                for p in before:
                    row = rows.row([0] * (i - 1) + [p] if i else [])
                    found = set(np.flatnonzero(np.isfinite(row)).tolist())
                    assert len(found) == len(wanted)
                    # llama.cpp rounds activations to 8 bits: the last ones may be others as good.
                    assert all(abs(logits[c] - least) < TOLERANCE for c in found ^ wanted)
                    for c in found & wanted:
                        assert row[c] == pytest.approx(scores[p, c], abs=TOLERANCE)
                before = found & wanted


def test_no_block_is_longer_than_a_batch(make: Any) -> None:
    with make(random_head(), metadata={"block_size": 10**6}) as rig:
        assert rig.head.longest == 32
        rig.check(TEXT[:40], 32)


def test_a_head_that_borrows_the_output_matrix_of_its_target(make: Any) -> None:
    with make(random_head(None)) as rig:
        rig.check(TEXT[:70], 4, tolerance=0.2)  # llama.cpp rounds activations to 8 bits there


def test_a_quantized_head(make: Any) -> None:
    with make(random_head(), quantization=gguf.GGMLQuantizationType.Q8_0) as rig:
        rig.check(TEXT[:70], 4, tolerance=0.3)


def test_a_cancelled_pass_leaves_a_valid_cache(rig: Rig) -> None:
    rig.check(TEXT[:70], 3)
    rig.read(TEXT)
    rig.abort.set()
    with pytest.raises(CancelledError):
        rig.head.draft(np.array(TEXT, dtype=np.int32), 3)
    assert rig.head.tokens.tolist() == TEXT[:69]
    with pytest.raises(CancelledError):
        rig.head.draft(np.array(TEXT[:70], dtype=np.int32), 3)
    rig.abort.clear()
    rig.check(TEXT, 3)


def test_what_the_target_does_not_hold_is_no_text_to_draft_for(rig: Rig) -> None:
    rig.target.logits(TEXT[:20])
    for text in (TEXT[:30], [5, *TEXT[1:20]]):
        tokens = np.array(text, dtype=np.int32)
        assert rig.head.missing(tokens) is None
        with pytest.raises(BackendError, match="lacks hidden states that the head needs"):
            rig.head.draft(tokens, 2)
    rig.check(TEXT[:21], 2)


def test_calibration_measures_and_leaves_the_cache_empty(rig: Rig) -> None:
    rig.check(TEXT[:20], 2)
    rig.head.calibrate()
    assert len(rig.head.tokens) == 0
    assert set(rig.head.costs.as_dict()) == {2, 5, 7}
    assert set(rig.head.measure_passes(prefix=100, repeats=1)) == set(range(1, BLOCK))
    assert all(0 < s < 10 for s in rig.head.costs.as_dict().values())
    rig.check(TEXT[:20], 2)
