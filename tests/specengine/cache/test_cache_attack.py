"""Cache sync under attack: whatever happened before, going on equals a fresh run.

Random histories of one chat over the same two caches: answers with any drafter, rule and draft
length; answers that are left, cancelled or broken at any point; edits, new attempts, branches.
After each step the caches hold what they say. Acceptance cases 13 and 15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from specengine.cache.context import Context
from specengine.control.controller import FixedDraftLength
from specengine.core.cancel import AbortFlag
from specengine.core.drafter import Drafter
from specengine.core.errors import CancelledError, ContextFullError
from specengine.core.events import Chunk, Finished
from specengine.drafters.bridge import SameIds
from specengine.drafters.lookup import LookupDrafter
from specengine.drafters.model import ModelDrafter
from specengine.loop.generate import generate
from specengine.loop.target import LocalTarget
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
from support.fakes import BrokenPassError, FakeKVCache, FakeVocab, Model, markov

V = 6
END = V - 1
N_CTX, DRAFT_N_CTX = 48, 40

GREEDY = SamplingParams(temperature=0)
SETTINGS = (
    # With these the text depends on neither drafter nor draft length.
    ("greedy", GREEDY),
    ("greedy", SamplingParams(temperature=0, repeat_penalty=1.5, repeat_last_n=8)),
    ("block", GREEDY),
    ("token", GREEDY),
    ("coupled", SamplingParams(temperature=1, seed=7)),
    ("coupled", SamplingParams(temperature=0.7, top_k=3, presence_penalty=0.5, seed=2**40)),
)

Answer = tuple[tuple[int, ...], str]  # token ids and the reason why it ended


@cache
def model(seed: int, sharpness: float) -> Model:
    slow = markov(V, seed, sharpness=sharpness)
    rows: dict[tuple[int, ...], np.ndarray] = {}

    def fast(tokens: Sequence[int]) -> np.ndarray:
        key = tuple(tokens[-3:])
        return rows[key] if key in rows else rows.setdefault(key, slow(key))

    return fast


class Chat:
    """A target, a draft model and lookup over caches that stay."""

    def __init__(self, seed: int, stops_every: tuple[int, int] = (1, 1), width_step: int = 1):
        self.vocab = FakeVocab(V, eog=[END])
        self.abort = AbortFlag()
        self.caches = (
            FakeKVCache(model(seed, 3.0), V, n_ctx=N_CTX, n_batch=16, stops_every=stops_every[0]),
            # Much the same opinions, less sure of them: some drafts stand, some do not.
            FakeKVCache(
                model(seed, 2.0), V, n_ctx=DRAFT_N_CTX, n_batch=16, stops_every=stops_every[1]
            ),
        )
        self.contexts = tuple(Context(kv, width_step=width_step) for kv in self.caches)
        self.lookup = LookupDrafter()

    def events(
        self, prompt: Sequence[int], how: tuple[str, SamplingParams], drafters: str, k: int
    ) -> Iterator[Chunk | Finished]:
        name, sampling = how
        acceptance = make_rule(name, sampling)
        transforms = Transforms(sampling)
        found: dict[str, Drafter] = {
            "m": ModelDrafter(
                "m", SameIds(self.vocab, V), self.contexts[1], transforms, acceptance
            ),
            "l": self.lookup,
        }
        return generate(
            LocalTarget(self.vocab, self.contexts[0], transforms, acceptance),
            [found[letter] for letter in drafters],
            FixedDraftLength(k),
            prompt,
            max_tokens=12,
            stop=["aba"],
            abort=self.abort,
        )

    def answer(self, *args: Any) -> Answer:
        *_, finished = self.events(*args)
        assert isinstance(finished, Finished)
        return finished.tokens, finished.reason

    def set_width(self, width: int) -> None:
        """As `Pair` does where `--reproducible` changes."""
        for context in self.contexts:
            context.forget()
            context.width_step = width

    def break_pass(self, which: int, after: int, how: Callable[[], None]) -> None:
        """In the middle of pass number `after` from now of a cache, `how` happens."""
        kv = self.caches[which]
        last = kv.passes + after

        def strike() -> None:
            if kv.passes >= last:
                how()

        kv.before_decode = strike

    def mend(self) -> None:
        self.abort.clear()
        for kv in self.caches:
            kv.before_decode = lambda: None


class Attack(RuleBasedStateMachine):
    @initialize(
        seed=st.integers(0, 40),
        stops_every=st.sampled_from([(1, 1), (1, 1), (8, 1), (1, 1000), (5, 3)]),
        prompt=st.lists(st.integers(0, V - 2), min_size=1, max_size=20),
    )
    def begin(self, seed: int, stops_every: tuple[int, int], prompt: list[int]) -> None:
        self.seed = seed
        self.chat = Chat(seed, stops_every)
        self.text = list(prompt)
        self.last_answer = 0
        self.branches = [list(prompt)]

    # What is asked of an answer: how it is drawn, who drafts, how much.
    asked = st.tuples(
        st.sampled_from(SETTINGS), st.sampled_from(["", "m", "l", "ml", "lm"]), st.integers(0, 17)
    )

    def fresh(self, how: tuple[str, SamplingParams]) -> Answer:
        """What a target that has just been loaded says to this text, alone."""
        return Chat(self.seed).answer(self.text, how, "", 0)

    def grow(self, tokens: Sequence[int]) -> None:
        self.last_answer = len(self.text)
        self.text.extend(tokens)

    @precondition(lambda self: len(self.text) < N_CTX)
    @rule(asked=asked)
    def answer(self, asked: Any) -> None:
        expected = self.fresh(asked[0])
        assert self.chat.answer(self.text, *asked) == expected
        self.grow(expected[0])

    @precondition(lambda self: len(self.text) < N_CTX)
    @rule(name=st.sampled_from(["token", "block", "typical"]), k=st.integers(0, 17))
    def sampled_answer(self, name: str, k: int) -> None:
        """Of which nothing is known but that it ends where it has to."""
        tokens, reason = self.chat.answer(self.text, (name, SamplingParams(seed=1)), "ml", k)
        assert reason in ("stop", "length")
        assert len(tokens) <= min(12, N_CTX - len(self.text))
        self.grow(tokens)

    @precondition(lambda self: len(self.text) < N_CTX)
    @rule(asked=asked, n=st.integers(0, 6))
    def answer_left_by_its_reader(self, asked: Any, n: int) -> None:
        self.interrupted(asked, leave_after=n)

    @precondition(lambda self: len(self.text) < N_CTX)
    @rule(asked=asked, n=st.integers(0, 6))
    def answer_cancelled_between_rounds(self, asked: Any, n: int) -> None:
        self.interrupted(asked, cancel_after=n)

    @precondition(lambda self: len(self.text) < N_CTX)
    @rule(
        asked=asked,
        which=st.integers(0, 1),
        after=st.integers(1, 12),
        fault=st.sampled_from([CancelledError, BrokenPassError, RuntimeError, KeyboardInterrupt]),
    )
    def answer_broken_within_a_pass(
        self, asked: Any, which: int, after: int, fault: type[BaseException]
    ) -> None:
        def strike() -> None:
            raise fault("in the middle of a pass")

        self.chat.break_pass(which, after, strike)
        self.interrupted(asked)

    def interrupted(self, asked: Any, leave_after: int = -1, cancel_after: int = -1) -> None:
        """What was committed is how the fresh run begins; the person keeps it."""
        committed: list[int] = []
        try:
            events = self.chat.events(self.text, *asked)
            for i, event in enumerate(events):
                if i == leave_after:
                    break
                if i == cancel_after:
                    self.chat.abort.set()
                if isinstance(event, Chunk):
                    committed += event.tokens
                else:
                    assert list(event.tokens) == committed[: len(event.tokens)]
                    committed = list(event.tokens)
        except (RuntimeError, KeyboardInterrupt):
            pass  # such a fault is nobody's to hide
        self.chat.mend()
        expected, _ = self.fresh(asked[0])
        # A stop string cuts tokens that a round has committed.
        if len(committed) <= len(expected):
            assert committed == list(expected[: len(committed)])
        else:
            assert committed[: len(expected)] == list(expected)
        self.grow(committed[: len(expected)])

    @precondition(lambda self: self.last_answer)
    @rule()
    def regenerate(self) -> None:
        del self.text[self.last_answer :]

    @rule(at=st.floats(0, 1), tokens=st.lists(st.integers(0, V - 2), min_size=1, max_size=12))
    def edit(self, at: float, tokens: list[int]) -> None:
        self.text[int(at * len(self.text)) :] = tokens
        self.last_answer = 0

    @rule(tokens=st.lists(st.integers(0, V - 2), min_size=1, max_size=12))
    def next_turn(self, tokens: list[int]) -> None:
        self.text += [END, *tokens]

    @rule()
    def keep_this_branch(self) -> None:
        self.branches.append(list(self.text))

    @rule(data=st.data())
    def go_to_a_branch(self, data: st.DataObject) -> None:
        self.text = list(data.draw(st.sampled_from(self.branches)))
        self.last_answer = 0

    @rule(width=st.integers(1, 3))
    def change_the_width_of_passes(self, width: int) -> None:
        self.chat.set_width(width)

    @precondition(lambda self: len(self.text) >= N_CTX)
    @rule(asked=asked)
    def overflow(self, asked: Any) -> None:
        with pytest.raises(ContextFullError):
            self.chat.answer(self.text, *asked)

    @invariant()
    def caches_hold_what_they_say(self) -> None:
        for context, kv in zip(self.chat.contexts, self.chat.caches, strict=True):
            assert context.tokens.tolist() == kv.held


Attack.TestCase.settings = settings(
    max_examples=1000,
    stateful_step_count=16,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
test_case_13_case_15_any_history_of_a_chat = pytest.mark.timeout(900)(Attack.TestCase)
