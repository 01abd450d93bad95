from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from specengine.checks.chi_square import chi_square, survival
from specengine.core.distribution import Distribution


@given(st.floats(0, 500), st.integers(1, 60))
def test_survival_is_that_of_the_chi_square_law(statistic: float, degrees: int) -> None:
    expected = stats.chi2.sf(statistic, degrees)
    assert survival(statistic, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def distribution(*probs: float) -> Distribution:
    return Distribution(np.arange(len(probs), dtype=np.int32) * 3, np.array(probs))


def test_the_statistic_is_pearsons() -> None:
    found = chi_square({0: 480, 3: 330, 6: 190}, distribution(0.5, 0.3, 0.2))
    expected = stats.chisquare([480, 330, 190], [500, 300, 200])
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.degrees == 2


def test_rare_tokens_are_pooled() -> None:
    p = distribution(0.001, 0.002, 0.003, 0.494, 0.5)
    found = chi_square({0: 2, 6: 3, 9: 495, 12: 500}, p)
    assert found.degrees == 2
    expected = stats.chisquare([5, 495, 500], [6, 494, 500])
    assert found.p_value == pytest.approx(expected.pvalue)


def test_a_token_that_the_target_excludes_is_proof() -> None:
    assert chi_square({0: 999, 4: 1}, distribution(0.5, 0.5)).p_value == 0
    assert chi_square({0: 999, 3: 1}, distribution(1, 0)).p_value == 0


def test_a_point_mass_tests_nothing_but_its_support() -> None:
    assert chi_square({0: 100}, distribution(1)).p_value == 1


def test_p_values_of_sound_draws_are_uniform() -> None:
    rng = np.random.default_rng(5)
    p = Distribution(np.arange(40, dtype=np.int32), rng.dirichlet(np.ones(40) * 0.3))
    p_values = [
        chi_square(Counter(rng.choice(40, 2000, p=p.probs).tolist()), p).p_value for _ in range(400)
    ]
    assert stats.kstest(p_values, "uniform").pvalue > 0.001
