"""A run tells, while it measures, what it has measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from specchat.benchmark import session
from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.report import Condition, Report, Sample
from specchat.benchmark.runner import Step, plan_steps
from specchat.benchmark.session import Others, Watcher, _collect
from specchat.benchmark.suite import Item
from specchat.doctor.machine import ModelFile
from specchat.models.registry import Profile
from specengine.sampling import SamplingParams
from support.fake_side import FakeSide


class Watching(Watcher):
    def __init__(self) -> None:
        self.told: list[int] = []

    def so_far(self, report: Report) -> None:
        self.told.append(len(cast(Any, report)[0]))


def steps_of(*sides: FakeSide) -> Sequence[Step]:
    greedy = Condition(name="greedy", sampling=SamplingParams(temperature=0))
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


async def test_the_bound_is_that_of_the_target(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    passes = [{1: 1.0, 2: 1.25}, {1: 0.1, 2: 0.1}]
    files = [tmp_path / "target.gguf", tmp_path / "draft.gguf"]
    pair = SimpleNamespace(files=files, measure_passes=lambda prefix, repeats: passes)

    class Loaded:
        async def run(self, work: Callable[[Any], Any]) -> Any:
            return work(pair)

    def described(file: Path, pass_s: dict[int, float]) -> ModelFile:
        return ModelFile(
            file=file.name, name="", bytes=1, sha256="", quantization="", pass_s=pass_s
        )

    monkeypatch.setattr(session, "describe_model", described)
    profile = Profile(name="x", description="", target="x.gguf")
    plan = session.Plan(profile=profile, items=(), conditions=())
    report = (await session._composer(plan, [], Others(), cast(Any, Loaded())))([], False)
    assert (report.target.file, report.bound) == ("target.gguf", 1.6)


async def test_a_side_that_breaks_leaves_what_was_measured() -> None:
    breaks = FakeSide("y", failing_at=2)
    outcome = await _collect(steps_of(FakeSide("x"), breaks), [], Watching(), compose)
    assert isinstance(outcome.error, BenchmarkError)
    assert [len(cast(Any, outcome.report)[0]), cast(Any, outcome.report)[1]] == [2, False]
