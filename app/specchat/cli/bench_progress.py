"""How far a run is, on standard error: a bar in a terminal, a line for each step elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TimeRemainingColumn

from specchat.benchmark.report import Report, Sample
from specchat.benchmark.runner import Step
from specchat.benchmark.session import Watcher
from specchat.benchmark.sides import Side
from specchat.cli.event_progress import EventProgress
from specchat.cli.progress_bar import progress_bar
from specengine.core import events


class RunProgress(Watcher):
    """Shows a run for the length of a `with` block."""

    def __init__(self, so_far: Callable[[Report], None] = lambda report: None) -> None:
        self._bar = progress_bar(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._loading = EventProgress()
        self._task: TaskID | None = None
        self._so_far = so_far
        self._last: Step | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loading.clear()
        self._bar.stop()

    def load(self, event: events.Progress) -> None:
        self._loading.update(event)

    def stage(self, what: str) -> None:
        self._loading.clear()
        self._say(what)

    def measuring(self, answers: int) -> None:
        self._bar.start()
        self._task = self._bar.add_task("", total=answers)

    def step(self, step: Step, side: Side) -> None:
        words = f"{step.condition.name}, {step.item.id}, repeat {step.repeat + 1}"
        if self._task is not None:
            self._bar.update(self._task, description=f"{words}, {side.name}")
        if step is not self._last:
            self._say(words)
        self._last = step

    def sample(self, sample: Sample) -> None:
        if self._task is not None:
            self._bar.advance(self._task)

    def so_far(self, report: Report) -> None:
        self._so_far(report)

    def _say(self, words: str) -> None:
        if self._bar.disable:
            self._bar.console.print(words, markup=False, highlight=False)
