import numpy as np
import pytest

from specengine.survival import Survival


def test_without_experience_the_prior_holds() -> None:
    assert Survival().cumulative("x", 3, prior=0.5) == pytest.approx([0.5, 0.25, 0.125])


def test_the_rate_of_each_position_is_learned() -> None:
    rng = np.random.default_rng(1)
    survival = Survival()
    rates = [0.9, 0.5, 0.8]
    for _ in range(4000):
        accepted = 0
        while accepted < 3 and rng.random() < rates[accepted]:
            accepted += 1
        survival.observe("x", 3, accepted)
    found = np.mean([survival.cumulative("x", 3, prior=0.5)], axis=0)
    # A window of about 14 rounds: standard error .08 at the first position.
    assert found[0] == pytest.approx(0.9, abs=0.25)
    assert found[0] > found[1] > found[2] > 0


def test_a_change_of_text_is_learned_within_tens_of_tokens() -> None:
    survival = Survival()
    for _ in range(200):
        survival.observe("x", 4, 0)
    assert survival.cumulative("x", 1, prior=0.7)[0] < 0.15
    for _ in range(15):
        survival.observe("x", 4, 4)
    assert survival.cumulative("x", 1, prior=0.7)[0] > 0.6


def test_kinds_are_kept_apart() -> None:
    survival = Survival()
    for _ in range(20):
        survival.observe("sure", 1, 1)
        survival.observe("unsure", 1, 0)
    assert survival.cumulative("sure", 1, 0.5)[0] > 0.9
    assert survival.cumulative("unsure", 1, 0.5)[0] < 0.1


def test_positions_behind_a_rejection_learn_nothing() -> None:
    survival = Survival()
    survival.observe("x", 4, 1)
    untouched = Survival()
    untouched.observe("x", 2, 1)
    assert survival.cumulative("x", 4, 0.5) == untouched.cumulative("x", 4, 0.5)
