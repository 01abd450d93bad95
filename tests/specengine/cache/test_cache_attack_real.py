"""Cache sync under attack on a real model: SmolLM2 as target and as its own drafter.

The same as `test_cache_attack`, smaller: with `reproducible`, whatever happened before, an answer
is that of a pair whose caches are empty, id for id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from specengine.core.events import Chunk, Finished
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from specengine.sampling import SamplingParams

pytestmark = pytest.mark.usefixtures("smollm_step")

N_CTX = 160
MAX_TOKENS = 10
QUESTIONS = ("one two three one two", " four five", " Paris is", " the cat", " 1, 2, 3,", "\n\n")
SAMPLINGS = (
    SamplingParams(temperature=0),
    SamplingParams(temperature=0, repeat_penalty=1.2),
    SamplingParams(temperature=1, seed=7),
)


@pytest.fixture(scope="module")
def pairs(tiny_model: Path) -> Iterator[tuple[Pair, Pair]]:
    """The pair under attack, and one that is fresh whenever it is asked."""
    options = LoadOptions(n_ctx=N_CTX)
    attacked = Pair(tiny_model, tiny_model, method="model", options=options)
    fresh = Pair(tiny_model, method="none", options=options)
    # Measured once, before anything is aborted.
    assert attacked.width_step == fresh.width_step
    yield attacked, fresh
    attacked.close()
    fresh.close()


class Attack(RuleBasedStateMachine):
    def __init__(self, attacked: Pair, fresh: Pair) -> None:
        super().__init__()
        self.pair, self.fresh_pair = attacked, fresh
        self.text = attacked.vocab.tokenize(QUESTIONS[0])
        self.branches = [list(self.text)]

    asked = st.fixed_dictionaries(
        {
            "sampling": st.sampled_from(SAMPLINGS),
            "drafter": st.sampled_from(["none", "lookup", "model"]),
            "draft_length": st.sampled_from([1, 2, 5, 16]),
        }
    )

    def events(self, pair: Pair, asked: dict[str, Any]) -> Iterator[Chunk | Finished]:
        return pair.answer(
            self.text, AnswerRequest(**asked, max_tokens=MAX_TOKENS, reproducible=True)
        )

    def fresh(self, asked: dict[str, Any]) -> tuple[int, ...]:
        self.fresh_pair.forget()
        *_, finished = self.events(self.fresh_pair, asked | {"drafter": "none"})
        assert isinstance(finished, Finished)
        return finished.tokens

    def has_room(self) -> bool:
        return len(self.text) < N_CTX

    @precondition(has_room)
    @rule(asked=asked)
    def answer(self, asked: dict[str, Any]) -> None:
        *_, finished = self.events(self.pair, asked)
        assert isinstance(finished, Finished)
        assert finished.tokens == self.fresh(asked)
        self.text += finished.tokens

    @precondition(has_room)
    @rule(asked=asked, which=st.sampled_from(["_target", "_draft"]), after=st.integers(1, 6))
    def answer_aborted_within_a_pass(self, asked: dict[str, Any], which: str, after: int) -> None:
        kv = getattr(self.pair, which)._cache
        decode: Callable[..., Any] = kv.decode
        last = kv.passes + after

        def aborting(*args: Any) -> Any:
            if kv.passes + 1 == last:
                self.pair.abort.set()  # llama.cpp sees it at one of the first nodes of the pass
            return decode(*args)

        kv.decode = aborting
        try:
            *_, finished = self.events(self.pair, asked)
        finally:
            del kv.decode
            self.pair.abort.clear()
        assert isinstance(finished, Finished)
        assert finished.reason in ("cancelled", "stop", "length")
        assert finished.tokens == self.fresh(asked)[: len(finished.tokens)]
        self.text += finished.tokens

    @precondition(has_room)
    @rule(asked=asked, n=st.integers(0, 4))
    def answer_left_by_its_reader(self, asked: dict[str, Any], n: int) -> None:
        for i, _ in enumerate(self.events(self.pair, asked)):
            if i == n:
                break

    @rule(at=st.floats(0.5, 1), text=st.sampled_from(QUESTIONS))
    def edit(self, at: float, text: str) -> None:
        self.text[max(1, int(at * len(self.text))) :] = self.pair.vocab.tokenize(text)
        self.branches.append(list(self.text))

    @rule(data=st.data())
    def go_to_a_branch(self, data: st.DataObject) -> None:
        self.text = list(data.draw(st.sampled_from(self.branches)))

    @rule()
    def answer_with_other_widths(self) -> None:
        """Not reproducible: its text may differ, but it must not spoil what comes after."""
        if self.has_room():
            for _ in self.pair.answer(
                self.text, AnswerRequest(SAMPLINGS[0], max_tokens=4, draft_length=4)
            ):
                pass


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_case_13_case_15_any_history_of_a_real_chat(pairs: tuple[Pair, Pair]) -> None:
    run_state_machine_as_test(
        lambda: Attack(*pairs),  # type: ignore[arg-type]
        settings=settings(
            max_examples=8,
            stateful_step_count=8,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
