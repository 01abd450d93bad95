"""Models that cannot drop a suffix, real ones with random weights: never left wrong.

`lfm2` takes back rejected tokens by llama.cpp's snapshots, `mamba` by checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specengine.cache.context import Context
from specengine.checks.near_ties import teacher_force
from specengine.control.controller import FixedDraftLength
from specengine.core.cancel import AbortFlag
from specengine.core.drafter import Drafter
from specengine.core.errors import CancelledError
from specengine.core.events import Finished
from specengine.core.tokens import Tokens
from specengine.drafters.bridge import SameIds
from specengine.drafters.model import ModelDrafter
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from specengine.llama.recurrent_cache import RecurrentKVCache
from specengine.loop.generate import generate
from specengine.loop.target import LocalTarget
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
from support.fakes import FakeVocab
from support.tiny_models import VOCABULARY, WRITERS

pytestmark = pytest.mark.kernels

MAX_ROWS = 17
TEXT = [(7 * i + i * i) % VOCABULARY for i in range(120)]
OTHER = [(5 * i + 3) % VOCABULARY for i in range(120)]

# Of logits with a standard deviation near 2.7. Passes of another width round differently; a wrong
# state is off by more than 1.
TOLERANCE = 1e-3


@dataclass
class Rig:
    model: LlamaModel
    abort: AbortFlag = field(default_factory=AbortFlag)

    def __post_init__(self) -> None:
        options: dict[str, Any] = {"n_ctx": 256, "n_threads": 1, "abort": self.abort}
        self.cache = RecurrentKVCache(self.model, max_rows=MAX_ROWS, **options)
        self.reference = LlamaKVCache(self.model, max_rows=MAX_ROWS, **options)
        self.context = Context(self.cache)
        self.widths: list[int] = []
        decode = self.cache.decode

        def noting(tokens: Tokens, pos: int, rows: slice) -> Any:
            self.widths.append(len(tokens))
            return decode(tokens, pos, rows)

        self.cache.decode = noting  # type: ignore[method-assign]

    def fresh_rows(self, tokens: list[int], last: int) -> np.ndarray:
        self.reference.clear()
        n = len(tokens)
        return self.reference.decode(np.array(tokens, dtype=np.int32), 0, slice(n - last, n)).copy()

    def check(self, tokens: list[int], last: int = 1) -> list[int]:
        """Asks for rows, compares them with a fresh context's; the widths of the passes it took."""
        self.widths.clear()
        rows = self.context.logits(tokens, last)
        assert np.abs(rows - self.fresh_rows(tokens, last)).max() < TOLERANCE
        assert self.context.tokens.tolist() == tokens[: self.cache.length()]
        return list(self.widths)

    def close(self) -> None:
        self.cache.close()
        self.reference.close()


@pytest.fixture(scope="module", params=list(WRITERS))
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaModel]:
    path = tmp_path_factory.mktemp("models") / f"{request.param}.gguf"
    with LlamaModel(WRITERS[request.param](path)) as loaded:
        yield loaded


@pytest.fixture
def rig(model: LlamaModel) -> Iterator[Rig]:
    rig = Rig(model)
    yield rig
    rig.close()


def rolls_back(rig: Rig) -> bool:
    return "lfm2" in rig.model.path.name


def test_llama_cpp_would_refuse_or_lie_without_us(rig: Rig) -> None:
    """What this cache is for: a suffix longer than the last pass cannot be taken back."""
    assert rig.model.is_recurrent
    one_by_one = LlamaKVCache(rig.model, n_ctx=256, n_threads=1, abort=rig.abort, max_rows=MAX_ROWS)
    for pos, token in enumerate(TEXT[:20]):
        one_by_one.decode(np.array([token], dtype=np.int32), pos, slice(0, 1))
    left = one_by_one.truncate(16)
    assert left == (16 if rolls_back(rig) else 0)
    if rolls_back(rig):  # it says yes, and then computes from the wrong state
        row = one_by_one.decode(np.array([3], dtype=np.int32), 16, slice(0, 1))
        assert np.abs(row - rig.fresh_rows([*TEXT[:16], 3], 1)).max() > 0.1
    one_by_one.close()


@pytest.mark.parametrize("accepted", range(7))
def test_rejected_draft_tokens_leave_no_trace(rig: Rig, accepted: int) -> None:
    rig.check(TEXT[:30])
    rig.check([*TEXT[:31], *OTHER[:6]], last=7)  # a round: the token before, and six drafted
    kept = [*TEXT[:31], *OTHER[:accepted]]
    # A snapshot: only what is new. A checkpoint: the pass that was rejected is begun again.
    again = 0 if rolls_back(rig) or accepted == 6 else 1 + accepted
    apart = again >= 2  # as many as the rows
    assert rig.check([*kept, 1, 2], last=2) == ([again, 2] if apart else [again + 2])


def test_however_many_rounds_are_rejected_none_evaluates_ever_more_tokens(rig: Rig) -> None:
    rig.check(TEXT[:30])
    evaluated = []
    for n in range(31, 71):
        draft = [(TEXT[n] + 1) % VOCABULARY] * 4
        evaluated.append(sum(rig.check([*TEXT[:n], *draft], last=5)))
    assert max(evaluated) <= 3 * 5
    assert sum(evaluated) == (200 if rolls_back(rig) else 315)  # of 40 rounds of 5 tokens


def test_rejections_one_after_another_before_a_pass(rig: Rig) -> None:
    tokens = np.array(TEXT, dtype=np.int32)
    for start, end in ((0, 20), (20, 30), (30, 38)):
        rig.cache.decode(tokens[start:end], start, slice(0, 1))
    for length in (37, 36, 28):  # by snapshot, by checkpoint, and from there by another
        left = rig.cache.truncate(length)
        assert left == rig.cache.length() <= length
    row = rig.cache.decode(tokens[left:29], left, slice(28 - left, 29 - left))
    assert np.abs(row - rig.fresh_rows(TEXT[:29], 1)).max() < TOLERANCE


def test_token_by_token_and_back_by_several(rig: Rig) -> None:
    """As a draft model goes: each draft token a pass, then the target rejects most of them."""
    rig.check(TEXT[:30])
    for n in range(31, 40):
        rig.check(TEXT[:n])
    for kept in (38, 35, 31, 30):
        passes = rig.check([*TEXT[:kept], 5])
        assert sum(passes) <= 1 + (40 - kept)


def test_an_edit_far_back_evaluates_little_more_than_the_tail(rig: Rig) -> None:
    for n in range(2, 101):
        rig.check(TEXT[:n])
    (width,) = rig.check([*TEXT[:80], *OTHER[:4]])
    assert 4 <= width <= 4 + 20


def test_the_same_rows_again(rig: Rig) -> None:
    for _ in range(3):
        rig.check(TEXT[:20], last=5)


def test_an_abort_within_a_pass_leaves_the_state_before_it(rig: Rig) -> None:
    rig.check(TEXT[:30])
    rig.abort.set()
    with pytest.raises(CancelledError):
        rig.context.logits(TEXT[:60])
    rig.abort.clear()
    assert rig.context.tokens.tolist() == TEXT[: rig.cache.length()]
    assert rig.check(TEXT[:60]) == [30]


@pytest.mark.parametrize("length", [1, 30])
def test_a_failure_after_the_state_has_changed(
    rig: Rig, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.check(TEXT[:length])

    def decode_and_fail(self: LlamaKVCache, *args: Any) -> None:
        real(self, *args)
        raise CancelledError("cancelled")

    real = LlamaKVCache.decode
    with monkeypatch.context() as broken:
        broken.setattr(LlamaKVCache, "decode", decode_and_fail)
        with pytest.raises(CancelledError):
            rig.context.logits(TEXT[:60])
    assert rig.check(TEXT[:60]) == [60 - length]


def test_a_failed_first_pass_leaves_nothing(rig: Rig) -> None:
    rig.abort.set()
    with pytest.raises(CancelledError):
        rig.context.logits(TEXT[:60])
    rig.abort.clear()
    assert rig.cache.length() == 0
    rig.check(TEXT[:60])


def test_a_checkpoint_that_cannot_be_read_costs_a_new_evaluation(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30, 40):
        rig.check(TEXT[:n])
    monkeypatch.setattr(rig.cache._llama, "llama_state_seq_set_data_ext", lambda *_: 0)
    assert rig.check([*TEXT[:34], 5]) == [35]


@pytest.mark.parametrize("drafter", list(WRITERS))
@pytest.mark.parametrize("k", [1, 4, 16])
def test_an_answer_is_the_same_whatever_such_a_model_drafts_for_such_a_model(
    model: LlamaModel, drafter: str, k: int, tmp_path: Path
) -> None:
    vocab, sampling = FakeVocab(VOCABULARY), SamplingParams(temperature=0)
    rule, transforms = make_rule("greedy", sampling), Transforms(sampling)

    def answer(rig: Rig, drafters: list[Drafter]) -> Finished:
        target = LocalTarget(vocab, rig.context, transforms, rule)
        events = generate(target, drafters, FixedDraftLength(k), TEXT[:20], max_tokens=60)
        *_, finished = events
        assert isinstance(finished, Finished)
        return finished

    with LlamaModel(WRITERS[drafter](tmp_path / "draft.gguf")) as draft_model:
        alone, drafted, drafting = Rig(model), Rig(model), Rig(draft_model)
        bridge = SameIds(vocab, VOCABULARY)
        made = ModelDrafter("draft", bridge, drafting.context, transforms, rule)
        expected, found = answer(alone, []), answer(drafted, [made])
        # Passes of other widths may round otherwise: what was said is the best, or as good as it.
        for rig, said in ((alone, expected), (drafted, found)):
            assert teacher_force(rig.context, TEXT[:20], said.tokens).widest_gap < TOLERANCE
        rate = found.stats.acceptance_rate
        assert rate is not None
        assert (rate > 0.9) == (drafter in model.path.name)
        for rig in (alone, drafted, drafting):
            rig.close()


Step = tuple[float, list[int], int, bool]
STEPS = st.lists(
    st.tuples(
        st.floats(0, 1),  # where the text is cut, from its end
        st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=12),
        st.integers(1, MAX_ROWS),
        st.booleans(),  # the pass is aborted
    ),
    min_size=2,
    max_size=12,
)


@settings(max_examples=60)
@given(steps=STEPS, width_step=st.sampled_from([1, 1, 2]))
def test_any_history_equals_a_fresh_context(
    model: LlamaModel, steps: list[Step], width_step: int
) -> None:
    rig = Rig(model)
    rig.context.width_step = width_step
    text: list[int] = []
    for cut, tail, last, aborted in steps:
        text = text[: len(text) - int(cut**3 * len(text))] + tail
        if aborted:
            rig.abort.set()
            with pytest.raises(CancelledError):
                rig.context.logits(text)
            rig.abort.clear()
        else:
            rig.check(text, min(last, len(text)))
    rig.close()
