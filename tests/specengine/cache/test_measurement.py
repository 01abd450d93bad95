"""Whether a measurement can be believed."""

from dataclasses import replace

import pytest

from specengine.cache.measurement import Measurement, OtherProcesses, drift_of, spread_of

QUIET = Measurement(at=0.0, passes=24, spread=0.03, drift=0.05, load=0.02)


@pytest.mark.parametrize(
    ("measured", "noisy"),
    [
        (QUIET, False),
        (replace(QUIET, load=None), False),
        (replace(QUIET, spread=0.4), True),
        (replace(QUIET, drift=0.4), True),
        (replace(QUIET, load=0.5), True),
    ],
)
def test_what_slows_passes_now_and_then_or_all_of_them_makes_it_noisy(
    measured: Measurement, noisy: bool
) -> None:
    assert measured.is_noisy == noisy


def test_the_spread_is_that_of_the_two_quickest_passes_of_the_middle_width() -> None:
    assert spread_of({1: [9.0, 1.0, 1.1], 2: [2.0, 2.4], 5: [4.0, 2.0]}) == pytest.approx(0.2)
    assert spread_of({1: [0.0, 0.0]}) == 0.0


def test_it_drifts_when_plain_passes_get_slower_or_quicker() -> None:
    assert drift_of([1.0, 5.0], [2.0, 1.5]) == drift_of([1.5], [1.0]) == pytest.approx(0.5)
    assert drift_of([0.0], [1.0]) == 0.0


def test_the_load_is_the_share_of_all_processors_that_others_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, busy = iter((100.0, 101.0, 100.0, 100.1)), iter((50.0, 51.0, 50.0))
    monkeypatch.setattr("specengine.cache.measurement.time.monotonic", lambda: next(clock))
    monkeypatch.setattr("specengine.cache.measurement.os.cpu_count", lambda: 4)
    monkeypatch.setattr(OtherProcesses, "_busy_s", staticmethod(lambda: next(busy)))
    assert OtherProcesses().load() == 0.25
    assert OtherProcesses().load() is None, "too short to tell"
