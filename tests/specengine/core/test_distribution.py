from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from specengine.core.distribution import Distribution


def sparse(**probs: float) -> Distribution:
    """`sparse(t3=.5, t7=.5)`"""
    ids = np.array([int(name[1:]) for name in probs], dtype=np.int32)
    return Distribution(ids, np.array(list(probs.values())))


P = sparse(t3=0.25, t7=0.5, t9=0.25)


@pytest.mark.parametrize(("token", "prob"), [(3, 0.25), (7, 0.5), (8, 0), (0, 0), (100, 0)])
def test_the_probability_of_a_token(token: int, prob: float) -> None:
    assert P.prob(token) == prob


@pytest.mark.parametrize(
    ("ids", "probs"),
    [
        ([3, 7, 9], [0.25, 0.5, 0.25]),
        ([7], [0.5]),
        ([1, 8, 100], [0, 0, 0]),
        ([0, 3, 4, 5, 6, 9, 11], [0, 0.25, 0, 0, 0, 0.25, 0]),  # longer than its own
        ([], []),
    ],
)
def test_the_probabilities_of_other_ids(ids: list[int], probs: list[float]) -> None:
    assert P.probs_of(np.array(ids, dtype=np.int32)).tolist() == probs


@pytest.mark.parametrize(
    ("u", "token"), [(0.0, 3), (0.2499, 3), (0.25, 7), (0.7499, 7), (0.75, 9), (1 - 2**-53, 9)]
)
def test_a_draw_is_the_inverse_of_the_cumulative_distribution(u: float, token: int) -> None:
    assert P.sample(u) == token


def test_weights_need_not_sum_to_1_and_zeros_are_never_drawn() -> None:
    weights = sparse(t1=0.0, t2=3.0, t3=0.0, t4=1.0, t5=0.0)
    drawn = Counter(weights.sample(u) for u in np.linspace(0, 1, 1000, endpoint=False))
    assert drawn == {2: 750, 4: 250}


def test_the_argmax_is_the_lowest_id_among_equals() -> None:
    assert sparse(t4=0.2, t6=0.4, t8=0.4).argmax() == 6


def test_arithmetic_with_fractions_stays_exact() -> None:
    third = Fraction(1, 3)
    p = Distribution(np.array([0, 5], dtype=np.int32), np.array([third, 2 * third], dtype=object))
    assert p.prob(5) == Fraction(2, 3)
    assert p.probs_of(np.array([4, 5], dtype=np.int32)).tolist() == [0, Fraction(2, 3)]
    assert p.sample(third) == 5
    assert type(Distribution.point(2, object).prob(2)) is int


def test_a_draw_from_many_is_the_draw_of_the_whole_sum() -> None:
    weights = np.random.default_rng(3).random(10_000)
    weights[::3] = 0
    weights[-300:] = 0
    many = Distribution(np.arange(10_000, dtype=np.int32), weights)
    cumulative = weights.cumsum()
    drawn = np.linspace(0, 1, 501, endpoint=False)
    expected = [int((cumulative > u * cumulative[-1]).argmax()) for u in drawn]
    assert [many.sample(u) for u in drawn] == expected
    assert many.sample(1.0) == 9698  # rounding up never draws what has no weight
