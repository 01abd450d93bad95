"""A context that records features holds those of exactly the tokens that its cache holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from specengine.cache.context import Context
from specengine.cache.features import Features
from support.fakes import BrokenPassError, FakeKVCache, markov

V = 5
MODEL = markov(V, seed=2)


class HeldSource:
    """The row of a token: its position, itself, and the sum of all tokens so far."""

    name = "held"
    width = 3

    def __init__(self, cache: FakeKVCache) -> None:
        self._cache = cache

    def read(self, n_tokens: int, into: Features) -> None:
        start = len(self._cache.held) - self._cache.widths[-1]
        into[:] = rows_of(self._cache.held)[start : start + n_tokens]


def rows_of(tokens: list[int]) -> Features:
    rows = np.stack([np.arange(len(tokens)), tokens, np.cumsum(tokens)], axis=1)
    return rows.astype(np.float32)


def test_what_was_evaluated_before_recording_began_is_evaluated_again() -> None:
    cache = FakeKVCache(MODEL, V)
    context = Context(cache)
    context.logits([1, 2, 3])
    assert context.features.shape == (0, 0)
    context.record(HeldSource(cache))
    context.logits([1, 2, 3, 4])
    assert cache.widths == [3, 4]
    assert np.array_equal(context.features, rows_of([1, 2, 3, 4]))


def test_the_rows_of_a_kept_prefix_stay_those_of_a_dropped_suffix_go() -> None:
    cache = FakeKVCache(MODEL, V)
    context = Context(cache)
    context.record(HeldSource(cache))
    context.logits([1, 2, 3, 4])
    before = context.features
    context.logits([1, 2, 0])
    assert np.shares_memory(before, context.features)
    assert np.array_equal(context.features, rows_of([1, 2, 0]))
    context.forget()
    assert context.features.shape == (0, 3)


def test_a_saved_cache_comes_back_with_its_features() -> None:
    cache = FakeKVCache(MODEL, V)
    context = Context(cache)
    context.record(HeldSource(cache))
    context.logits([1, 2, 3, 4])
    saved = context.save([1, 2, 3])
    assert saved is not None
    context.logits([4, 4, 4, 4, 4])
    assert context.restore(saved)
    assert context.tokens.tolist() == cache.held == [1, 2, 3]
    assert np.array_equal(context.features, rows_of([1, 2, 3]))
    context.logits([1, 2, 3, 0])
    assert cache.widths[-1] == 1
    assert np.array_equal(context.features, rows_of([1, 2, 3, 0]))


def test_a_state_too_short_for_its_features_is_not_taken() -> None:
    cache = FakeKVCache(MODEL, V)
    context = Context(cache)
    context.logits([1, 2, 3])
    saved = context.save([1, 2, 3])
    assert saved is not None
    context.record(HeldSource(cache))
    assert not context.restore(saved)
    assert context.tokens.tolist() == cache.held == []


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, V - 1), min_size=1, max_size=24), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([1, 1, 4, 1000]),
)
@example([([2], False), ([2, 0], True)], 1, 4)  # the broken pass left less than was held before
def test_any_history_of_sequences_and_failures_keeps_rows_and_tokens_together(
    history: list[tuple[list[int], bool]], width_step: int, stops_every: int
) -> None:
    cache = FakeKVCache(MODEL, V, n_batch=10, stops_every=stops_every)
    context = Context(cache, width_step=width_step)
    context.record(HeldSource(cache))

    def fail() -> None:
        raise BrokenPassError("broken")

    for tokens, breaks in history:
        if breaks:
            cache.before_decode = fail
            with pytest.raises(BrokenPassError):
                context.logits(tokens)
            cache.before_decode = lambda: None
        else:
            context.logits(tokens, min(2, len(tokens)))
        assert context.tokens.tolist() == cache.held
        assert np.array_equal(context.features, rows_of(cache.held))
