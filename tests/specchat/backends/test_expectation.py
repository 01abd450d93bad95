"""What drafts are expected to bring: nothing made up, and about what the simulation says."""

from __future__ import annotations

import pytest

from remote.simulation import Scene, duplex, streaming
from specchat.backends.expectation import expected_gain


def pass_s(n: int) -> float:
    """Four tokens cost half as much again as one."""
    return 0.05 * (1 + (n - 1) / 6)


@pytest.mark.parametrize("round_trip_s", [0.0, 0.02, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("acceptance", [0.5, 0.7, 0.9])
def test_the_formula_is_near_the_simulation(round_trip_s: float, acceptance: float) -> None:
    scene = Scene(round_trip_s, pass_s, draft_s=0.008, acceptance=acceptance)
    simulated = duplex(scene) / streaming(scene)
    expected = expected_gain(round_trip_s, pass_s, 0.008, acceptance, 16)
    assert expected == pytest.approx(simulated, rel=0.2)


def test_a_drafter_that_is_slower_than_the_target_brings_nothing() -> None:
    assert expected_gain(0.0, pass_s, 0.06, 0.9, 16) == 1


def test_drafts_that_cost_nothing_and_are_there_at_once_fill_each_pass() -> None:
    def flat(n: int) -> float:
        return 0.1

    assert expected_gain(0.0, flat, 0.0, 0.5, 16) == pytest.approx(2.0, rel=1e-4)
