"""The simulation of drafting for a remote target, where the right answer is known otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remote.simulation import (
    Scene,
    ask_and_wait,
    duplex,
    streaming,
)

FLAT = Scene(round_trip_s=0.05, pass_s=lambda n: 0.03, draft_s=0.005, acceptance=0.8)


def test_a_drafter_that_is_always_wrong_costs_nothing_where_passes_are_flat() -> None:
    wrong = replace(FLAT, acceptance=0.0)
    assert duplex(wrong) == pytest.approx(streaming(wrong))


def test_a_drafter_that_is_free_and_right_fills_every_pass_without_a_line() -> None:
    perfect = replace(FLAT, round_trip_s=0.0, draft_s=1e-9, acceptance=1.0)
    assert duplex(perfect, tokens=20_000) == pytest.approx(17 / 0.03, rel=0.05)


def test_a_drafter_slower_than_the_target_brings_nothing() -> None:
    slow = replace(FLAT, draft_s=0.031, acceptance=1.0)
    assert duplex(slow) == pytest.approx(streaming(slow), rel=0.02)


def test_a_right_drafter_sets_the_pace_once_it_is_ahead() -> None:
    """Nothing is ever wrong: the line costs its length once."""
    right = replace(FLAT, acceptance=1.0)
    assert duplex(right, tokens=20_000) == pytest.approx(1 / right.draft_s, rel=0.02)


def test_a_wide_pass_that_does_not_pay_is_not_made() -> None:
    steep = replace(FLAT, pass_s=lambda n: 0.03 * n)
    assert duplex(steep) == pytest.approx(streaming(steep))


def test_the_worked_round_of_asking_and_waiting() -> None:
    """Three tokens drafted at 6 ms, 20 ms of pass and line, all accepted: 4 tokens in 38 ms."""
    scene = Scene(0.006, lambda n: 0.014, 0.006, 1.0)
    assert ask_and_wait(scene, 3) == pytest.approx(4 / 0.038)
    half = replace(scene, acceptance=0.5)
    assert ask_and_wait(half, 3) == pytest.approx(1.875 / 0.038)


@pytest.mark.parametrize("round_trip_s", [0.0, 0.02, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("acceptance", [0.3, 0.6, 0.8, 0.9])
def test_the_full_line_beats_asking_and_loses_to_no_stream(
    round_trip_s: float, acceptance: float
) -> None:
    scene = Scene(round_trip_s, lambda n: 0.03 * (1 + 0.03 * (n - 1)), 0.005, acceptance)
    assert duplex(scene) > 0.97 * streaming(scene)
    if round_trip_s >= 0.02:
        assert duplex(scene) > max(ask_and_wait(scene, k) for k in range(1, scene.max_draft + 1))


def test_a_seed_repeats_and_another_one_changes_little() -> None:
    assert duplex(FLAT, seed=3) == duplex(FLAT, seed=3)
    rates = [duplex(FLAT, seed=seed) for seed in range(5)]
    assert max(rates) / min(rates) < 1.1
    assert len(set(rates)) > 1
