"""Asks all sides the same questions, in turn, so that whatever drifts drifts for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from specchat.benchmark.energy import EnergyMeter
from specchat.benchmark.neighbour import busy_neighbour
from specchat.benchmark.report import Condition, Sample
from specchat.benchmark.sides import Side
from specchat.benchmark.suite import Item, first_of_each_category
from specengine.chat.chat_template import Turn
from specengine.sampling import SamplingParams

_WARM_UP = "Name three primary colours, and say where each of them is found in nature."


@dataclass(frozen=True, slots=True)
class Step:
    """One item, answered by each of `sides` in this order."""

    condition: Condition
    repeat: int
    item: Item
    sides: tuple[Side, ...]


def plan_steps(
    conditions: Sequence[Condition],
    items: Sequence[Item],
    sides: Sequence[Side],
    repeats: int,
    essential: Sequence[str],
) -> tuple[Step, ...]:
    """All steps. Whole repeats come one after another: stopped early, a run has seen every prompt.

    Who answers first changes from step to step. `essential`: the names of the sides that a
    condition compares that is not thorough.
    """
    steps = []
    few = [side for side in sides if side.name in essential]
    for repeat in range(repeats):
        for condition in conditions:
            asked = items if condition.thorough else first_of_each_category(items)
            answering = sides if condition.thorough else few
            for index, item in enumerate(asked):
                first = (index + repeat) % len(answering)
                turn = (*answering[first:], *answering[:first])
                steps.append(Step(condition, repeat, item, turn))
    return tuple(steps)


async def warm_up(sides: Sequence[Side], system: Sequence[Turn]) -> None:
    """One answer of each side that is not counted."""
    for side in sides:
        await side.forget()
        await side.answer([*system, Turn("user", _WARM_UP)], SamplingParams(temperature=0))


async def measure(
    steps: Sequence[Step],
    system: Sequence[Turn],
    meter: EnergyMeter,
    on_step: Callable[[Step, Side], None],
) -> AsyncIterator[Sample]:
    """A sample for each answer, as soon as it is there. Raises what the sides raise.

    `system`: the turns before every item. `on_step` is told who answers what now.
    """
    for step in steps:
        with busy_neighbour() if step.condition.busy_neighbour else nullcontext():
            for side in step.sides:
                on_step(step, side)
                async for sample in _chat(step, side, system, meter):
                    yield sample


async def _chat(
    step: Step, side: Side, system: Sequence[Turn], meter: EnergyMeter
) -> AsyncIterator[Sample]:
    """All turns of an item; each side goes on from its own answers, as in a chat."""
    await side.forget()
    turns = list(system)
    for number, text in enumerate(step.item.turns, start=1):
        turns.append(Turn("user", text))
        before = meter.read()
        answer = await side.answer(turns, step.condition.sampling)
        energy = meter.joules(before, meter.read())
        turns.append(Turn("assistant", answer.text, answer.tokens))
        yield Sample(
            condition=step.condition.name,
            category=step.item.category,
            prompt=step.item.id,
            turn=number,
            repeat=step.repeat,
            side=side.name,
            energy_j=energy,
            **answer.measured.model_dump(),
        )
