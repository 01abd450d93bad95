"""Who is asked what, in which order."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from specchat.benchmark.conditions import make_conditions
from specchat.benchmark.energy import EnergyMeter
from specchat.benchmark.report import Condition, Sample
from specchat.benchmark.runner import Step, measure, plan_steps, warm_up
from specchat.benchmark.sides import Side
from specchat.benchmark.suite import Item
from specengine.chat.chat_template import Turn
from specengine.sampling import SamplingParams
from support.fake_side import FakeSide

GREEDY = Condition(name="greedy", sampling=SamplingParams(temperature=0))
ROW = GREEDY.model_copy(update={"name": "row", "thorough": False})


def items(*names: str) -> list[Item]:
    return [Item(id=name, category=name[0], turns=(f"say {name}",)) for name in names]


def order(steps: Sequence[Step]) -> list[str]:
    return ["".join(side.name for side in step.sides) for step in steps]


def test_who_answers_first_changes_with_prompt_and_repeat() -> None:
    sides = [FakeSide("x"), FakeSide("y"), FakeSide("z")]
    steps = plan_steps([GREEDY], items("a1", "a2"), sides, 2, essential=[])
    assert order(steps) == ["xyz", "yzx", "yzx", "zxy"]
    assert [(s.repeat, s.item.id) for s in steps] == [(0, "a1"), (0, "a2"), (1, "a1"), (1, "a2")]


def test_a_row_takes_the_first_prompt_of_each_category_and_few_sides() -> None:
    sides = [FakeSide("x"), FakeSide("y"), FakeSide("z")]
    steps = plan_steps([GREEDY, ROW], items("a1", "a2", "b1"), sides, 2, essential=["x", "z"])
    row = [step for step in steps if step.condition is ROW]
    assert [step.item.id for step in row] == ["a1", "b1", "a1", "b1"]
    assert order(row) == ["xz", "zx", "zx", "xz"]
    assert len(steps) == 2 * 3 + 4


async def run(steps: Sequence[Step], system: Sequence[Turn] = ()) -> list[Sample]:
    meter = EnergyMeter(Path("none"))
    return [sample async for sample in measure(steps, system, meter, lambda step, side: None)]


async def test_each_side_goes_on_from_its_own_answers_and_starts_afresh() -> None:
    sides = [FakeSide("x"), FakeSide("y")]
    chat = Item(id="t1", category="t", turns=("one", "two"))
    steps = plan_steps([GREEDY], [chat, *items("a1")], sides, 1, essential=[])
    system = [Turn("system", "be brief")]
    samples = await run(steps, system)
    assert [(s.prompt, s.turn, s.side) for s in samples] == [
        ("t1", 1, "x"),
        ("t1", 2, "x"),
        ("t1", 1, "y"),
        ("t1", 2, "y"),
        ("a1", 1, "y"),
        ("a1", 1, "x"),
    ]
    assert [s.completion_tokens for s in samples] == [1, 2, 1, 2, 1, 1]
    assert sides[1].asked[1] == [
        *system,
        Turn("user", "one"),
        Turn("assistant", "y 1", (1,)),
        Turn("user", "two"),
    ]
    assert sides[1].asked[2] == [*system, Turn("user", "say a1")]
    assert samples[0].energy_j is None


async def test_the_warm_up_is_one_answer_of_each_side_and_no_sample() -> None:
    sides: list[FakeSide] = [FakeSide("x"), FakeSide("y")]
    answering: list[Side] = [*sides]
    await warm_up(answering, [Turn("system", "")])
    assert [len(side.asked) for side in sides] == [1, 1]
    assert [turn.role for turn in sides[0].asked[0]] == ["system", "user"]


async def test_a_busy_neighbour_runs_while_its_condition_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running: list[str] = []

    class Neighbour:
        def __enter__(self) -> None:
            running.append("in")

        def __exit__(self, *_: object) -> None:
            running.append("out")

    monkeypatch.setattr("specchat.benchmark.runner.busy_neighbour", Neighbour)
    side = FakeSide("x")
    busy = ROW.model_copy(update={"busy_neighbour": True})
    await run(plan_steps([GREEDY, busy], items("a1", "a2"), [side], 1, essential=["x"]))
    assert running == ["in", "out"]
    assert len(side.asked) == 3


def test_conditions_are_the_temperatures_and_the_rows_beside_them() -> None:
    conditions = make_conditions([0.0, 0.8], {"top_k": 20}, untruncated=True, busy=True)
    assert [c.name for c in conditions] == [
        "greedy",
        "temperature 0.8",
        "temperature 0.8, untruncated",
        "greedy, busy neighbour",
    ]
    assert [c.thorough for c in conditions] == [True, True, False, False]
    assert conditions[1].sampling == SamplingParams(temperature=0.8, top_k=20)
    whole = conditions[2].sampling
    assert (whole.top_k, whole.top_p, whole.min_p) == (0, 1.0, 0.0)
    assert [c.busy_neighbour for c in conditions] == [False, False, False, True]


def test_greedy_alone_has_nothing_to_truncate() -> None:
    assert len(make_conditions([0.0, 0.0], {}, untruncated=True, busy=False)) == 1
