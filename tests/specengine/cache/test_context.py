import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specengine.cache.context import Context
from specengine.core.errors import BackendError, ContextFullError
from support.fakes import BrokenPassError, FakeKVCache, markov

V = 5
MODEL = markov(V, seed=1)


def fresh_rows(tokens: list[int], last: int) -> np.ndarray:
    return np.stack([MODEL(tokens[: len(tokens) - last + 1 + i]) for i in range(last)])


def test_rows_are_those_of_the_last_tokens() -> None:
    context = Context(FakeKVCache(MODEL, V))
    tokens = [0, 1, 2, 3, 4, 0]
    assert np.array_equal(context.logits(tokens, last=3), fresh_rows(tokens, 3))


def test_only_the_changed_tail_is_evaluated() -> None:
    cache = FakeKVCache(MODEL, V)
    context = Context(cache)
    context.logits([0, 1, 2, 3, 4])
    context.logits([0, 1, 2, 4, 4, 4])
    assert cache.widths == [5, 3]
    assert context.tokens.tolist() == [0, 1, 2, 4, 4, 4]


def test_asking_the_same_sequence_again_evaluates_just_the_rows() -> None:
    cache = FakeKVCache(MODEL, V)
    context = Context(cache)
    context.logits([0, 1, 2, 3])
    rows = context.logits([0, 1, 2, 3], last=2)
    assert cache.widths == [4, 2]
    assert np.array_equal(rows, fresh_rows([0, 1, 2, 3], 2))


def test_a_long_prompt_goes_in_chunks_and_reports_progress() -> None:
    cache = FakeKVCache(MODEL, V, n_batch=8)
    seen: list[tuple[int, int]] = []
    tokens = [i % V for i in range(19)]
    rows = Context(cache).logits(tokens, 4, on_progress=lambda done, n: seen.append((done, n)))
    assert seen[-1] == (19, 19)
    assert max(cache.widths) <= 8
    assert np.array_equal(rows, fresh_rows(tokens, 4))


def test_progress_counts_what_is_missing_not_what_is_held() -> None:
    context = Context(FakeKVCache(MODEL, V, n_batch=8))
    tokens = [i % V for i in range(40)]
    context.logits(tokens[:20])
    seen: list[tuple[int, int]] = []
    context.logits(tokens, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(8, 20), (16, 20), (20, 20)]


def test_what_a_draft_model_pays_for_two_tokens_and_one_row_is_learned() -> None:
    context = Context(FakeKVCache(MODEL, V))  # each pass takes 1 ms
    context.logits([0, 1, 2])
    assert context.costs.measured(2) is None
    context.logits([0, 1, 2, 3, 4])  # after a rejection: its correction, and one more
    assert context.costs.measured(2) == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("n", "last"), [(n, last) for n in range(1, 30) for last in (1, 3, 8) if last <= n]
)
def test_every_length_and_row_count_around_the_batch_size(n: int, last: int) -> None:
    tokens = [(i * 7) % V for i in range(n)]
    rows = Context(FakeKVCache(MODEL, V, n_batch=8)).logits(tokens, last)
    assert np.array_equal(rows, fresh_rows(tokens, last))


@pytest.mark.parametrize(("step", "widths"), [(1, [3, 1, 5]), (2, [4, 2, 6]), (8, [8, 8, 8])])
def test_passes_are_padded_to_a_multiple_and_leave_no_trace(step: int, widths: list[int]) -> None:
    cache = FakeKVCache(MODEL, V)
    context = Context(cache, width_step=step)
    for n in (3, 4, 9):
        tokens = [i % V for i in range(n)]
        assert np.array_equal(context.logits(tokens), fresh_rows(tokens, 1))
        assert cache.held == tokens
    assert cache.widths == widths


def test_a_long_prompt_is_cut_at_multiples_too() -> None:
    cache = FakeKVCache(MODEL, V, n_batch=16)
    context = Context(cache, width_step=5)
    context.logits([i % V for i in range(40)])
    assert cache.widths == [15, 15, 10]
    context.forget()
    context.logits([i % V for i in range(16)], last=5)
    assert cache.widths[3:] == [10, 10]  # not 11 and 5: 11 would have to be padded


def test_padding_fits_even_when_the_context_is_full() -> None:
    cache = FakeKVCache(MODEL, V, n_ctx=4)
    context = Context(cache, width_step=2)
    context.logits([0, 1, 2])
    context.logits([0, 1, 2, 3])
    assert cache.held == [0, 1, 2, 3]


def test_a_text_longer_than_the_context_is_refused_with_both_sizes() -> None:
    with pytest.raises(ContextFullError, match="9 tokens do not fit into a context of 8"):
        Context(FakeKVCache(MODEL, V, n_ctx=8)).logits([0] * 9)


@pytest.mark.parametrize("bad", [-1, V])
def test_case_11_ids_outside_the_vocabulary_never_reach_a_decode(bad: int) -> None:
    cache = FakeKVCache(MODEL, V)
    with pytest.raises(BackendError, match=f"token id {bad} "):
        Context(cache).logits([0, bad, 1])
    assert cache.passes == 0


def test_a_model_that_cannot_drop_a_suffix_is_evaluated_anew() -> None:
    cache = FakeKVCache(MODEL, V, stops_every=1000)
    context = Context(cache)
    context.logits([0, 1, 2, 3])
    rows = context.logits([0, 1, 4])
    assert cache.widths == [4, 3]
    assert np.array_equal(rows, fresh_rows([0, 1, 4], 1))


@pytest.mark.parametrize(
    ("step", "last", "widths"),
    [
        (1, 4, [5, 4]),
        (1, 5, [9]),  # less than the rows: they go together
        (1, 1, [9]),  # nothing that may be rejected
        (4, 4, [4, 8]),  # at a multiple; the rest is padded
        (8, 4, [16]),  # there is none
    ],
)
def test_what_lies_before_a_draft_goes_apart_where_a_rejection_would_drop_it(
    step: int, last: int, widths: list[int]
) -> None:
    cache = FakeKVCache(MODEL, V, stops_every=1000)
    seen: list[tuple[int, int]] = []
    tokens = [i % V for i in range(9)]
    context = Context(cache, width_step=step)
    rows = context.logits(tokens, last, on_progress=lambda done, n: seen.append((done, n)))
    assert cache.widths == widths
    assert np.array_equal(rows, fresh_rows(tokens, last))
    assert seen == []  # nobody waits for it as for a prompt


def test_a_broken_pass_leaves_the_cache_as_it_says() -> None:
    cache = FakeKVCache(MODEL, V)
    context = Context(cache)
    context.logits([0, 1])

    def fail() -> None:
        raise BrokenPassError("half way")

    cache.before_decode = fail
    with pytest.raises(BrokenPassError):
        context.logits([0, 1, 2, 3, 4, 0])
    assert context.tokens.tolist() == cache.held == [0, 1, 2, 3]
    cache.before_decode = lambda: None
    assert np.array_equal(context.logits([0, 1, 2, 3, 4, 0]), fresh_rows([0, 1, 2, 3, 4, 0], 1))


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, V - 1), min_size=1, max_size=24), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([1, 1, 4, 1000]),
)
def test_any_history_of_sequences_and_failures_equals_a_fresh_run(
    history: list[tuple[list[int], bool]], width_step: int, stops_every: int
) -> None:
    cache = FakeKVCache(MODEL, V, n_batch=10, stops_every=stops_every)
    context = Context(cache, width_step=width_step)
    for tokens, breaks in history:
        if breaks:

            def fail() -> None:
                raise BrokenPassError("broken")

            cache.before_decode = fail
            with pytest.raises(BrokenPassError):
                context.logits(tokens)
            cache.before_decode = lambda: None
        else:
            last = min(2, len(tokens))
            assert np.array_equal(context.logits(tokens, last), fresh_rows(tokens, last))
        assert context.tokens.tolist() == cache.held


def test_a_saved_cache_holds_the_beginning_of_the_text_that_it_is_saved_for() -> None:
    context = Context(FakeKVCache(MODEL, V), width_step=2)
    context.logits([0, 1, 2, 3, 4, 4])
    saved = context.save([0, 1, 2, 3, 0, 1])
    assert saved is not None
    cache = FakeKVCache(MODEL, V)
    other = Context(cache)
    assert other.restore(saved)
    assert (other.tokens.tolist(), other.width_step) == ([0, 1, 2, 3], 2)
    assert np.array_equal(other.logits([0, 1, 2, 3, 2], 1), fresh_rows([0, 1, 2, 3, 2], 1))
    assert cache.widths == [2]


def test_a_cache_that_cannot_be_copied_whole_is_not_saved() -> None:
    cache = FakeKVCache(MODEL, V)
    cache.can_save = False
    context = Context(cache)
    context.logits([0, 1])
    assert context.save([0, 1]) is None


def test_what_does_not_fit_or_is_not_taken_leaves_an_empty_cache() -> None:
    context = Context(FakeKVCache(MODEL, V))
    context.logits([0, 1, 2, 3, 4])
    saved = context.save([0, 1, 2, 3, 4])
    assert saved is not None
    smaller = Context(FakeKVCache(MODEL, V, n_ctx=4))
    assert not smaller.restore(saved)
    saved.state.resize(4)
    assert not context.restore(saved)
    assert context.tokens.tolist() == []


def test_only_the_pass_with_the_rows_is_padded_to_a_width() -> None:
    cache = FakeKVCache(markov(8, seed=1), 8, n_batch=16, stops_every=8)
    context = Context(cache, width_step=3)
    text = np.arange(16) % 8
    rows = context.logits(text, last=10, width=12)
    assert rows.shape == (10, 8)
    assert cache.widths == [6, 12]
    assert context.tokens.tolist() == cache.held


def test_a_look_widens_one_pass_learns_its_cost_and_changes_no_row() -> None:
    cache = FakeKVCache(markov(V, seed=3), V)
    context = Context(cache)
    expected = Context(FakeKVCache(markov(V, seed=3), V)).logits([1, 2, 3]).copy()
    context.logits([1, 2])
    context.look_at(5)
    assert np.array_equal(context.logits([1, 2, 3], width=context.cheapest_width(1)), expected)
    assert cache.widths[-1] == 5
    assert context.tokens.tolist() == [1, 2, 3]
    assert context.costs.measured(5) is not None
    context.logits([1, 2, 3, 4], width=context.cheapest_width(1))
    assert cache.widths[-1] == 1
