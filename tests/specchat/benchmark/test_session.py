"""A run tells, while it measures, what it has measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from specchat.benchmark import session
from specchat.benchmark.conditions import Condition
from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.report import Report, Sample
from specchat.benchmark.runner import Step, plan_steps
from specchat.benchmark.session import Watcher, _collect
from specchat.benchmark.suite import Item
from specengine.sampling import SamplingParams
from support.fake_side import FakeSide


class Watching(Watcher):
    def __init__(self) -> None:
        self.told: list[int] = []

    def so_far(self, report: Report) -> None:
        self.told.append(len(cast(Any, report)[0]))


def steps_of(*sides: FakeSide) -> Sequence[Step]:
    greedy = Condition("greedy", SamplingParams(temperature=0))
    items = [Item(id=name, category="a", turns=("Say it.",)) for name in ("a1", "a2")]
    return plan_steps([greedy], items, sides, repeats=1, essential=[])


def compose(samples: Sequence[Sample], complete: bool) -> Report:
    return cast(Report, (list(samples), complete))


@pytest.mark.parametrize(("every_s", "told"), [(0.0, [1, 2, 3, 4]), (3600.0, [1])])
async def test_it_tells_at_once_and_then_every_so_often(
    monkeypatch: pytest.MonkeyPatch, every_s: float, told: list[int]
) -> None:
    monkeypatch.setattr(session, "_TELL_S", every_s)
    watching = Watching()
    outcome = await _collect(steps_of(FakeSide("x"), FakeSide("y")), [], watching, compose)
    assert watching.told == told
    assert [len(cast(Any, outcome.report)[0]), cast(Any, outcome.report)[1]] == [4, True]


async def test_a_side_that_breaks_leaves_what_was_measured() -> None:
    breaks = FakeSide("y", failing_at=2)
    outcome = await _collect(steps_of(FakeSide("x"), breaks), [], Watching(), compose)
    assert isinstance(outcome.error, BenchmarkError)
    assert [len(cast(Any, outcome.report)[0]), cast(Any, outcome.report)[1]] == [2, False]
