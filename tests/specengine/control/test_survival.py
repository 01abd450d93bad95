import numpy as np
import pytest

from specengine.control.survival import Survival


def test_without_experience_the_prior_holds() -> None:
    assert Survival().cumulative("x", 3, prior=0.5) == pytest.approx([0.5, 0.25, 0.125])


def test_the_rate_of_each_position_is_learned() -> None:
    rng = np.random.default_rng(1)
    survival = Survival()
    rates = [0.9, 0.5, 0.8]
    found = []
    for _ in range(2000):
        accepted = 0
        while accepted < 3 and rng.random() < rates[accepted]:
            accepted += 1
        survival.observe("x", 3, accepted)
        first, second, third = survival.cumulative("x", 3, prior=0.9)
        found.append([first, second / first, third / second])
    # Ten rounds are remembered, three more say what the position before says, or the prior.
    leaning = [0.9, (10 * 0.5 + 3 * 0.9) / 13, (10 * 0.8 + 3 * 0.59) / 13]
    assert np.mean(found[-1500:], axis=0) == pytest.approx(leaning, abs=0.03)


def test_a_change_of_text_is_learned_within_tens_of_tokens() -> None:
    survival = Survival()
    for _ in range(200):
        survival.observe("x", 4, 0)
    assert survival.cumulative("x", 1, prior=0.7)[0] < 0.2
    for _ in range(15):
        survival.observe("x", 4, 4)
    assert survival.cumulative("x", 1, prior=0.7)[0] > 0.6


def test_kinds_are_kept_apart() -> None:
    survival = Survival()
    for _ in range(20):
        survival.observe("sure", 1, 1)
        survival.observe("unsure", 1, 0)
    assert survival.cumulative("sure", 1, 0.5)[0] > 0.85
    assert survival.cumulative("unsure", 1, 0.5)[0] < 0.15


def test_positions_behind_a_rejection_learn_nothing() -> None:
    survival = Survival()
    survival.observe("x", 4, 1)
    untouched = Survival()
    untouched.observe("x", 2, 1)
    assert survival.cumulative("x", 4, 0.5) == untouched.cumulative("x", 4, 0.5)


def test_siblings_share_their_luck() -> None:
    survival = Survival()
    survival.observe("copy", 3, 0, prior=0.75, family="lookup")
    # Odds 1/1 times (2 stood) / (2 + 1 fell) over (2 + .75) / (2 + .25) that should have.
    lucky = (2 / 3) / (2.75 / 2.25)
    assert survival.cumulative("phrase", 1, 0.5, "lookup") == pytest.approx([lucky / (1 + lucky)])
    assert survival.cumulative("phrase", 1, 0.5) == [0.5]
    assert survival.cumulative("m", 1, 0.5, "others") == [0.5]


def test_what_was_expected_is_no_luck() -> None:
    rng = np.random.default_rng(2)
    survival = Survival()
    hopes = []
    for _ in range(2000):
        survival.observe("copy", 1, int(rng.random() < 0.75), prior=0.75, family="lookup")
        hopes += survival.cumulative("phrase", 1, 0.5, "lookup")
    assert np.mean(hopes) == pytest.approx(0.5, abs=0.03)


def test_another_text_forgets_what_families_were_worth_in_the_last() -> None:
    survival = Survival()
    for _ in range(30):
        survival.observe("copy", 1, 1, prior=0.75, family="lookup")
        survival.observe("m", 1, 1)
    survival.begin()
    assert survival.cumulative("copy", 1, 0.75, "lookup") == [0.75]
    # Of a draft model six rounds are kept, twice what its prior counts for.
    assert survival.cumulative("m", 1, 0.5) == pytest.approx([2.5 / 3])
