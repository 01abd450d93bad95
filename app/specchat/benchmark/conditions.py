"""Under what conditions the sides are compared: how tokens are sampled, and beside what."""

from __future__ import annotations

from collections.abc import Sequence

from specchat.benchmark.report import Condition
from specengine.sampling import SamplingParams


def make_conditions(
    temperatures: Sequence[float], truncation: dict[str, float], *, untruncated: bool, busy: bool
) -> tuple[Condition, ...]:
    """One for each different temperature, and the rows beside them. Raises SamplingError."""
    conditions = [
        Condition(name=_name(t), sampling=SamplingParams.checked(temperature=t, **truncation))
        for t in dict.fromkeys(temperatures)
    ]
    warm = max(temperatures)
    if untruncated and warm > 0:
        whole = SamplingParams.checked(temperature=warm, top_k=0, top_p=1.0, min_p=0.0)
        name = f"{_name(warm)}, untruncated"
        conditions.append(Condition(name=name, sampling=whole, thorough=False))
    if busy:
        first = conditions[0]
        changes = {"name": f"{first.name}, busy neighbour", "busy_neighbour": True}
        conditions.append(first.model_copy(update={**changes, "thorough": False}))
    return tuple(conditions)


def _name(temperature: float) -> str:
    return f"temperature {temperature:g}" if temperature else "greedy"
