import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specengine.cache.calibrate import calibrate
from specengine.cache.context import Context
from specengine.cache.costs import PROMPT, WIDEST, PassCosts
from support.fakes import FakeKVCache, markov

SECONDS = st.floats(1e-4, 10.0)
# Two AVX-512 cores, Qwen2.5-Coder-1.5B Q4_K_M, milliseconds: four tokens cost less than three.
MEASURED = {1: 93.0, 2: 145.0, 3: 204.0, 4: 179.0, 5: 213.0, 8: 362.0, 16: 489.0}


def test_measured_widths_are_kept_as_they_are_and_others_interpolated() -> None:
    costs = PassCosts(MEASURED)
    assert costs.seconds(4) == 179.0
    assert costs.seconds(6) == pytest.approx(213 + (362 - 213) / 3)
    assert costs.seconds(12) == pytest.approx((362 + 489) / 2)


def test_wider_than_measured_costs_more() -> None:
    assert PassCosts(MEASURED).seconds(20) > 489.0
    assert PassCosts({2: 0.1}).seconds(1) < 0.1


def test_a_pass_is_padded_to_a_wider_one_that_costs_clearly_less() -> None:
    costs = PassCosts(MEASURED | {9: 346.0})
    assert [costs.cheapest(n) for n in (1, 2, 3, 4, 5)] == [1, 2, 4, 4, 5]
    assert costs.cheapest(8) == 8  # a few percent are no reason
    assert [costs.cheapest(n, step=2) for n in (1, 2, 3, 5)] == [2, 2, 4, 6]
    assert costs.cheapest(30) == 30
    assert costs.cheapest(30, step=4) == 32
    assert PassCosts().cheapest(3) == 3


def test_which_width_is_cheap_follows_what_is_observed() -> None:
    costs = PassCosts({3: 0.1, 4: 0.2})
    assert costs.cheapest(3) == 3
    for _ in range(20):
        costs.observe(4, 0.05)
        costs.observe(3, 0.1)
    assert costs.cheapest(3) == 4


def test_nothing_is_measured_before_the_first_pass() -> None:
    costs = PassCosts()
    assert not costs
    assert costs.measured(1) is None
    costs.observe(1, 0.02)
    assert costs
    assert costs.measured(1) == 0.02


def test_estimates_follow_a_machine_that_slows_down() -> None:
    costs = PassCosts({1: 0.1, 5: 0.2})
    for _ in range(30):
        costs.observe(5, 0.4)
    assert costs.seconds(5) == pytest.approx(0.4, rel=0.02)
    # What slows one width slows the others, by somewhat less.
    assert 0.13 < costs.seconds(1) < 0.2


def test_one_preempted_pass_hardly_counts() -> None:
    costs = PassCosts({1: 0.1})
    costs.observe(1, 60.0)
    assert costs.seconds(1) < 0.13


def test_the_first_passes_of_an_answer_tell_what_its_context_costs() -> None:
    costs = PassCosts({1: 0.017, 5: 0.031})  # as a long chat left them
    costs.begin()
    for _ in range(4):
        costs.observe(1, 0.007)
    assert costs.seconds(1) == pytest.approx(0.007, rel=0.25)
    assert costs.seconds(5) / costs.seconds(1) == pytest.approx(31 / 17)


def test_prompt_evaluation_is_counted_by_the_token() -> None:
    costs = PassCosts({1: 0.1})
    costs.observe_prompt(512, 5.12)
    assert costs.prompt_seconds(200) == pytest.approx(2.0)
    assert costs.seconds(1) == 0.1


@given(
    st.dictionaries(st.integers(1, WIDEST), SECONDS),
    st.lists(st.tuples(st.integers(1, 100), SECONDS), max_size=8),
)
def test_reading_more_never_looks_cheaper(
    widths: Mapping[int, float], reads: Sequence[tuple[int, float]]
) -> None:
    costs = PassCosts(widths)
    for tokens, seconds in reads:
        costs.observe_prompt(tokens, seconds)
    found = [costs.prompt_seconds(n) for n in range(1, 120)]
    assert found == sorted(found)
    assert found[0] > 0
    assert math.isfinite(found[-1])


@given(st.dictionaries(st.integers(1, WIDEST), SECONDS, min_size=1), st.none() | SECONDS)
def test_a_gap_of_unknown_price_costs_no_more_than_rows_or_a_prompt(
    widths: Mapping[int, float], prompt_s: float | None
) -> None:
    costs = PassCosts(widths)
    if prompt_s is not None:
        costs.observe_prompt(100, prompt_s)
    for n in range(1, WIDEST + 1):
        assert costs.prompt_seconds(n) <= costs.seconds(n)
        if prompt_s is not None:
            two = max(costs.seconds(1), costs.seconds(2))
            assert costs.prompt_seconds(n) <= max(two, n * prompt_s / 100) + 1e-9


def test_a_gap_of_seventeen_tokens_costs_less_than_one_of_forty() -> None:
    """Seen with a draft model: one row of logits is all it has ever been asked for."""
    costs = PassCosts({1: 0.02, 2: 0.025})
    costs.observe_prompt(100, 0.1)
    assert [costs.prompt_seconds(n) for n in (17, 40)] == pytest.approx([0.025, 0.04])


def test_what_gaps_cost_is_learned() -> None:
    costs = PassCosts({1: 0.05, 2: 0.10})
    costs.observe_prompt(100, 2.0)
    for tokens in (6, 17, 3, 12, 9, 20, 5, 14, 8, 11):
        costs.observe_prompt(tokens, 0.10 + 0.005 * (tokens - 2))
    assert costs.prompt_seconds(10) == pytest.approx(0.14, rel=0.1)
    assert costs.prompt_seconds(17) == pytest.approx(0.175, rel=0.1)
    assert costs.prompt_seconds(PROMPT) == pytest.approx(0.64)


def test_one_catch_up_that_was_preempted_does_not_price_all_others() -> None:
    costs = PassCosts({1: 0.02, 2: 0.025})
    costs.observe_prompt(100, 0.3)
    costs.observe_prompt(10, 60.0)
    assert costs.prompt_seconds(17) <= PROMPT * 0.003
    for _ in range(10):
        costs.observe_prompt(10, 0.03)
    assert costs.prompt_seconds(10) == pytest.approx(0.03, rel=0.2)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_a_clock_that_stood_still_or_went_back_teaches_nothing(seconds: float) -> None:
    costs = PassCosts()
    costs.observe(1, seconds)
    assert not costs
    costs.observe(1, 0.1)
    costs.observe(1, seconds)
    assert costs.seconds(1) == 0.1
    for tokens in (10, 100):
        before = costs.prompt_seconds(tokens)
        costs.observe_prompt(tokens, seconds)
        assert costs.prompt_seconds(tokens) == before


def test_every_pass_of_a_context_is_observed() -> None:
    context = Context(FakeKVCache(markov(8, seed=1), 8))
    context.logits(np.arange(40) % 8, last=1)
    assert not context.costs
    assert context.costs.prompt_seconds(400) == pytest.approx(0.01)
    context.logits(np.arange(46) % 8, last=6)
    assert context.costs.as_dict() == pytest.approx({6: 0.001, PROMPT: 0.0008})


def test_a_context_that_gives_one_row_learns_what_gaps_cost() -> None:
    context = Context(FakeKVCache(markov(8, seed=1), 8, max_rows=1))
    context.costs = PassCosts({1: 0.001, 2: 0.001})
    assert context.costs.prompt_seconds(17) == pytest.approx(0.001 * (1 + 0.25 * 16) / 1.25)
    for end in range(20, 220, 20):  # every pass of the fake takes a millisecond
        context.logits(np.arange(end) % 8)
    assert context.costs.as_dict() == {1: 0.001, 2: 0.001}
    assert context.costs.prompt_seconds(17) == pytest.approx(0.001, rel=0.2)


def test_calibration_measures_the_widths_that_drafts_have() -> None:
    cache = FakeKVCache(markov(8, seed=1), 8, n_ctx=256, n_batch=128)
    context = Context(cache)
    calibrate(context, budget_s=60.0)
    assert {1, 2, 5, 9, 17} <= context.costs.as_dict().keys()
    assert cache.held == []


def test_calibration_of_a_context_that_is_too_small_does_nothing() -> None:
    cache = FakeKVCache(markov(8, seed=1), 8, n_ctx=16)
    calibrate(Context(cache))
    assert cache.passes == 0


def test_what_reading_costs_is_kept_for_the_next_run() -> None:
    costs = PassCosts({1: 0.02})
    assert not costs.knows((1, 32))
    costs.observe_prompt(100, 0.3)
    again = PassCosts(costs.as_dict())
    assert again.knows((1, 32))
    assert again.prompt_seconds(200) == pytest.approx(0.6)
    assert again.seconds(17) == PassCosts({1: 0.02}).seconds(17)
    again.forget(32)
    assert not again.knows((32,))
