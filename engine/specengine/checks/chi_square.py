"""Pearson's chi-square test of drawn tokens against the distribution they should follow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from specengine.core.distribution import Distribution

_LEAST_EXPECTED = 5.0  # below this the statistic does not follow the chi-square law


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """`p_value`: how often draws that follow the distribution look at least this unlike it."""

    statistic: float
    degrees: int
    p_value: float


def chi_square(counts: Mapping[int, int], p: Distribution) -> ChiSquare:
    """Test `counts` of token ids against `p`. Rare tokens are pooled into one cell.

    A token that `p` excludes makes the p-value 0.
    """
    n = sum(counts.values())
    if any(p.prob(token) == 0 for token, count in counts.items() if count):
        return ChiSquare(math.inf, 0, 0.0)
    cells: list[tuple[float, int]] = []
    pooled_expected, pooled_count = 0.0, 0
    for token, prob in sorted(zip(p.ids.tolist(), p.probs.tolist(), strict=True), key=_by_prob):
        pooled_expected += n * prob
        pooled_count += counts.get(token, 0)
        if pooled_expected >= _LEAST_EXPECTED:
            cells.append((pooled_expected, pooled_count))
            pooled_expected, pooled_count = 0.0, 0
    if pooled_expected:  # only where the draws are too few for a single cell
        cells.append((pooled_expected, pooled_count))
    statistic = sum((count - expected) ** 2 / expected for expected, count in cells)
    degrees = len(cells) - 1
    return ChiSquare(statistic, degrees, survival(statistic, degrees))


def survival(statistic: float, degrees: int) -> float:
    """P(X > statistic) for X chi-square with `degrees` degrees of freedom; 1 with none.

    Q(a, x) = Q(a - 1, x) + x^(a-1) e^-x / Gamma(a) with a = degrees/2, x = statistic/2, from
    Q(1/2, x) = erfc(sqrt x) or Q(1, x) = e^-x (Abramowitz and Stegun 26.4).
    """
    if degrees == 0:
        return 1.0
    x = statistic / 2
    if x == 0:
        return 1.0
    a = 0.5 if degrees % 2 else 1.0
    result = math.erfc(math.sqrt(x)) if degrees % 2 else math.exp(-x)
    while a < degrees / 2:
        result += math.exp(a * math.log(x) - x - math.lgamma(a + 1))
        a += 1
    return min(1.0, result)


def _by_prob(item: tuple[int, float]) -> float:
    return item[1]
