"""Every way a function's uniform draws can fall, with exact probabilities.

The acceptance rules look at a uniform draw only by comparing it, perhaps scaled, with a number. A
`Uniform` answers such comparisons without ever having a value: where both answers are possible the
run is repeated for each of them, and the draw is from then on known to lie on that side. All the
answers together are all the outcomes, and what is proven is the code that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


def outcomes(run: Callable[[Callable[[], Uniform]], T]) -> Iterator[tuple[Fraction, T]]:
    """(probability, result) of every path through `run`, which is given a source of draws."""
    pending: list[list[bool]] = [[]]
    while pending:
        path = _Path(pending.pop())
        n_given = len(path.answers)
        result = run(partial(Uniform, path))
        pending += ([*path.answers[:i], False] for i in range(n_given, len(path.answers)))
        yield path.probability, result


@dataclass
class _Path:
    answers: list[bool]
    probability: Fraction = Fraction(1)
    asked: int = 0

    def decide(self, probability: Fraction) -> bool:
        if self.asked == len(self.answers):
            self.answers.append(True)
        answer = self.answers[self.asked]
        self.asked += 1
        self.probability *= probability if answer else 1 - probability
        return answer


@dataclass
class _Interval:
    low: Fraction = Fraction(0)
    high: Fraction = Fraction(1)


@dataclass(eq=False)
class Uniform:
    """A draw from [0, 1) times `scale`; it equals a given number with probability 0."""

    path: _Path
    scale: Fraction = Fraction(1)
    within: _Interval = field(default_factory=_Interval)

    def __mul__(self, factor: Fraction) -> Uniform:
        return Uniform(self.path, self.scale * Fraction(factor), self.within)

    def __lt__(self, other: Any) -> bool:
        if other is self:  # numpy's searchsorted asks this
            return False
        if self.scale == 0:
            return bool(other > 0)
        bound, within = Fraction(other) / self.scale, self.within
        if not within.low < bound < within.high:
            return bound >= within.high
        below = self.path.decide((bound - within.low) / (within.high - within.low))
        if below:
            within.high = bound
        else:
            within.low = bound
        return below

    def __gt__(self, other: Any) -> bool:
        return other is not self and (other < 0 if self.scale == 0 else not self < other)
