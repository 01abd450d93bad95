"""Measuring what passes cost, on a cache whose passes have known prices."""

import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.cache.calibrate import calibrate, is_calibrated, measure_passes, measure_widths
from specengine.cache.context import Context
from specengine.cache.costs import PassCosts
from specengine.cache.measurement import OtherProcesses
from specengine.core.errors import CancelledError
from specengine.core.tokens import Tokens
from support.fakes import FakeKVCache, markov


class PricedKVCache(FakeKVCache):
    """A pass over n tokens costs n² milliseconds; the first of a width 100 ms more."""

    def decode(self, tokens: Tokens, pos: int, rows: slice) -> NDArray[np.float32]:
        first = len(tokens) not in self.widths
        before = self.decode_s
        result = super().decode(tokens, pos, rows)
        self.decode_s = before + len(tokens) ** 2 / 1000 + 0.1 * first
        return result


class BusyKVCache(PricedKVCache):
    """While the machine is `busy`, every other pass takes three times as long."""

    def __init__(self, busy: range) -> None:
        super().__init__(markov(8, 1), 8, n_ctx=256, max_rows=17)
        self.busy = busy

    def decode(self, tokens: Tokens, pos: int, rows: slice) -> NDArray[np.float32]:
        before = self.decode_s
        result = super().decode(tokens, pos, rows)
        if self.passes in self.busy and self.passes % 2:
            self.decode_s += 2 * (self.decode_s - before)
        return result


@pytest.fixture(autouse=True)
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other processes do while the tests run."""
    monkeypatch.setattr(OtherProcesses, "load", lambda self: None)


def calibrated(busy: range) -> PassCosts:
    context = Context(BusyKVCache(busy))
    calibrate(context, budget_s=60)
    return context.costs


def test_on_a_quiet_machine_each_width_is_timed_twice() -> None:
    measured = calibrated(range(0)).measured_in
    assert measured is not None
    assert (measured.passes, measured.is_noisy) == (2 * 12, False)
    assert (measured.spread, measured.drift) == pytest.approx((0, 0))


def test_on_a_busy_machine_passes_are_timed_again_and_the_quickest_count() -> None:
    costs = calibrated(range(80))
    measured = costs.measured_in
    assert measured is not None
    assert measured.passes > 2 * 12
    assert not measured.is_noisy
    assert costs.as_dict()[9] == pytest.approx(0.081)


def test_a_machine_that_stays_busy_is_measured_three_times_and_said_to_be() -> None:
    class Slowing(PricedKVCache):
        def decode(self, tokens: Tokens, pos: int, rows: slice) -> NDArray[np.float32]:
            before = self.decode_s
            result = super().decode(tokens, pos, rows)
            self.decode_s = before + (self.decode_s - before) * 1.1**self.passes
            return result

    context = Context(Slowing(markov(8, 1), 8, n_ctx=256, max_rows=17))
    calibrate(context, budget_s=60)
    measured = context.costs.measured_in
    assert measured is not None
    assert (measured.passes, measured.is_noisy) == (3 * 2 * 12, True)
    assert measured.drift > 1


def test_measured_passes_cost_what_their_second_run_costs() -> None:
    cache = PricedKVCache(markov(8, 1), 8, max_rows=5)
    context = Context(cache)
    seconds = measure_passes(context, prefix=20, repeats=3)
    assert {width: round(1000 * s) for width, s in seconds.items()} == {
        1: 1,
        2: 4,
        3: 9,
        4: 16,
        5: 25,
    }
    assert cache.held == []
    assert not context.costs


def test_widths_that_do_not_fit_into_the_context_are_not_measured() -> None:
    context = Context(PricedKVCache(markov(8, 1), 8, n_ctx=24, max_rows=17))
    assert set(measure_passes(context, prefix=20, repeats=1)) == {1, 2, 3, 4}


def test_calibration_leaves_out_the_first_pass_of_a_width_and_empties_the_cache() -> None:
    cache = PricedKVCache(markov(8, 1), 8, n_ctx=256, max_rows=17)
    context = Context(cache)
    calibrate(context, budget_s=60)
    costs = context.costs
    assert costs.seconds(9) / costs.seconds(3) > 3
    assert cache.held == []


def test_calibration_keeps_the_quicker_of_two_passes() -> None:
    class Interrupted(PricedKVCache):
        def decode(self, tokens: Tokens, pos: int, rows: slice) -> NDArray[np.float32]:
            result = super().decode(tokens, pos, rows)
            self.decode_s += 0.05 * (self.widths.count(len(tokens)) == 2)
            return result

    context = Context(Interrupted(markov(8, 1), 8, n_ctx=256, max_rows=17))
    calibrate(context, budget_s=-1)
    assert context.costs.seconds(1) == pytest.approx(0.001)
    assert context.costs.seconds(5) == pytest.approx(0.025)


def test_when_its_time_is_up_only_a_pass_alone_and_one_with_a_draft_are_measured() -> None:
    """A width of 5 guessed from that of 2 once kept a draft model from ever being used."""
    context = Context(PricedKVCache(markov(8, 1), 8, n_ctx=256, max_rows=17))
    calibrate(context, budget_s=-1)
    assert set(context.costs.as_dict()) == {1, 5}
    assert context.costs.seconds(5) / context.costs.seconds(1) == pytest.approx(25, rel=0.1)


def test_a_calibration_that_was_cancelled_is_done_anew() -> None:
    cache = PricedKVCache(markov(8, 1), 8, n_ctx=256, max_rows=17)
    context = Context(cache)

    def cancel() -> None:
        if cache.passes == 5:
            raise CancelledError("cancelled")

    cache.before_decode = cancel
    with pytest.raises(CancelledError):
        calibrate(context)
    assert not context.costs
    assert cache.held == []


def test_widths_of_which_some_were_measured_when_it_was_cancelled_are_measured_anew() -> None:
    costs = PassCosts()

    def seconds(width: int) -> float:
        if width == 9:
            raise CancelledError("cancelled")
        return width / 1000

    with pytest.raises(CancelledError):
        measure_widths(costs, (1, 5, 9), seconds)
    assert not costs
    measure_widths(costs, (1, 5), seconds)
    assert costs.as_dict() == {1: 0.001, 5: 0.005}


def test_passes_without_drafts_do_not_count_as_a_calibration() -> None:
    context = Context(PricedKVCache(markov(8, 1), 8, n_ctx=256, max_rows=17))
    context.logits(np.arange(40) % 8)
    context.logits(np.arange(41) % 8)
    assert context.costs.measured(1) is not None
    assert not is_calibrated(context)
    calibrate(context, budget_s=-1)
    assert is_calibrated(context)


def test_a_model_that_never_verifies_is_calibrated_by_a_draft_token_and_by_reading() -> None:
    """What reading costs, guessed four times too high, once kept a draft model from being used."""
    context = Context(PricedKVCache(markov(8, 1), 8, n_ctx=256, max_rows=1))
    assert not is_calibrated(context)
    calibrate(context, budget_s=-1)
    assert is_calibrated(context)
    costs = context.costs
    assert set(costs.as_dict()) == {1, 32}
    assert costs.prompt_seconds(64) / costs.seconds(1) == pytest.approx(64 * 64, rel=0.1)


def test_where_no_long_text_fits_none_is_read() -> None:
    context = Context(PricedKVCache(markov(8, 1), 8, n_ctx=40, max_rows=1))
    calibrate(context, budget_s=-1)
    assert is_calibrated(context)
    assert set(context.costs.as_dict()) == {1}


def test_answers_that_pad_their_passes_are_calibrated_once_too() -> None:
    cache = PricedKVCache(markov(8, 1), 8, n_ctx=256, max_rows=17)
    context = Context(cache, width_step=8)
    calibrate(context, budget_s=60)
    assert is_calibrated(context)
    assert context.costs.seconds(5) / context.costs.seconds(1) == pytest.approx(25, rel=0.2)
    assert (context.width_step, cache.held) == (8, [])


def test_passes_are_measured_as_wide_as_they_are_said_to_be() -> None:
    context = Context(PricedKVCache(markov(8, 1), 8, max_rows=3), width_step=8)
    seconds = measure_passes(context, prefix=8, repeats=1)
    assert seconds == pytest.approx({1: 0.001, 2: 0.004, 3: 0.009})
    assert context.width_step == 8


def test_a_calibration_that_was_cancelled_pads_passes_again() -> None:
    cache = PricedKVCache(markov(8, 1), 8, n_ctx=256, max_rows=17)
    context = Context(cache, width_step=8)

    def cancel() -> None:
        raise CancelledError("cancelled")

    cache.before_decode = cancel
    with pytest.raises(CancelledError):
        calibrate(context)
    assert context.width_step == 8
