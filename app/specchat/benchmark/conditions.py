"""Under what conditions the sides are compared: how tokens are sampled, and beside what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specengine.sampling import SamplingParams


@dataclass(frozen=True, slots=True)
class Condition:
    """`thorough`: all prompts and all sides. Otherwise the first prompt of each category, answered
    by the target alone, the controller and what is not our own pair: enough for one row.
    """

    name: str
    sampling: SamplingParams
    thorough: bool = True
    busy: bool = False
    """A neighbour process keeps one core busy."""


def make_conditions(
    temperatures: Sequence[float], truncation: dict[str, float], *, untruncated: bool, busy: bool
) -> tuple[Condition, ...]:
    """One for each different temperature, and the rows beside them. Raises SamplingError."""
    conditions = [
        Condition(_name(t), SamplingParams.checked(temperature=t, **truncation))
        for t in dict.fromkeys(temperatures)
    ]
    warm = max(temperatures)
    if untruncated and warm > 0:
        whole = SamplingParams.checked(temperature=warm, top_k=0, top_p=1.0, min_p=0.0)
        conditions.append(Condition(f"{_name(warm)}, untruncated", whole, thorough=False))
    if busy:
        first = conditions[0]
        name = f"{first.name}, busy neighbour"
        conditions.append(Condition(name, first.sampling, thorough=False, busy=True))
    return tuple(conditions)


def _name(temperature: float) -> str:
    return f"temperature {temperature:g}" if temperature else "greedy"
