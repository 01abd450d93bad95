"""One run of the benchmark: load, warm up, measure. Stopped early, it gives what it has."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.runtime import Runtime
from specchat.benchmark.energy import EnergyMeter
from specchat.benchmark.report import Condition, Report, Sample, SideInfo
from specchat.benchmark.room import require_room
from specchat.benchmark.runner import Step, measure, plan_steps, warm_up
from specchat.benchmark.sides import ADAPTIVE, Side, default_names, is_fixed, local_sides
from specchat.benchmark.suite import Item
from specchat.benchmark.summary import ALONE, bound, comparisons, figures, with_shares_of_fixed
from specchat.doctor.machine import describe_file, describe_machine, describe_model
from specchat.errors import SpecchatError
from specchat.models.registry import Profile, Registry
from specchat.version import __version__
from specengine.chat.chat_template import Turn
from specengine.core.errors import SpecEngineError
from specengine.core.events import Progress
from specengine.llama.placement import GpuLayers
from specengine.llama.threads import default_threads

_PREFIX = 256  # tokens before the passes whose cost is measured
_PASS_REPEATS = 5
_TELL_S = 30.0  # between reports of what has been measured


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    profile: Profile
    items: tuple[Item, ...]
    conditions: tuple[Condition, ...]
    side_names: tuple[str, ...] = ()
    """Beside the target alone; none stands for the controller and fixed lengths of each drafter."""
    repeats: int = 5
    max_tokens: int = 256
    reproducible: bool = False
    threads: int | None = None
    gpu_layers: GpuLayers = field(default_factory=GpuLayers)
    offline: bool = False
    convert_drafts: bool = False


class Watcher:
    """Hears how a run goes on; this one lets it pass."""

    def load(self, event: Progress) -> None:
        """A model is fetched or loaded. Called from other threads."""

    def stage(self, what: str) -> None:
        """Something begins that takes a while."""

    def measuring(self, answers: int) -> None:
        """The comparison begins; it takes so many answers."""

    def step(self, step: Step, side: Side) -> None:
        """`side` answers the item of `step` now."""

    def sample(self, sample: Sample) -> None:
        """One of the answers has been measured."""

    def so_far(self, report: Report) -> None:
        """What has been measured yet: soon after the start, then every half minute at most."""


@dataclass(frozen=True, slots=True)
class Outcome:
    report: Report
    error: Exception | None
    """What ended the run before its time, unless it was interrupted."""


@dataclass(frozen=True, slots=True)
class Others:
    """Sides that are not our own pair; the controller is compared with each of them."""

    sides: tuple[Side, ...] = ()
    draft: Path | None = None
    """The model that drafts for them."""


OpenOthers = Callable[[Plan, Registry, Runtime, Watcher, AsyncExitStack], Awaitable[Others]]
"""Makes them beside the loaded pair; what they need is closed by the stack."""


async def run(
    plan: Plan, registry: Registry, watcher: Watcher, open_others: OpenOthers | None = None
) -> Outcome:
    """Measure what `plan` says.

    Interrupted (its task cancelled) or broken while it measures, it returns what it has; before
    that it raises CancelledError, SpecchatError or SpecEngineError.
    """
    system = [] if plan.profile.system is None else [Turn("system", plan.profile.system)]
    async with AsyncExitStack() as stack:
        runtime = Runtime(
            registry,
            n_threads=plan.threads,
            gpu_layers=plan.gpu_layers,
            offline=plan.offline,
            convert_drafts=plan.convert_drafts,
        )
        stack.push_async_callback(runtime.close)
        await runtime.load(plan.profile, watcher.load)
        await runtime.run(lambda pair: require_room(pair, system, plan.items, plan.max_tokens))
        sides = await _local_sides(plan, runtime)
        others = Others()
        if open_others is not None:
            others = await open_others(plan, registry, runtime, watcher, stack)
            sides += others.sides
        watcher.stage("warming up")
        await warm_up(sides, system)
        watcher.stage("measuring passes")
        compose = await _composer(plan, sides, others, runtime)
        essential = (ALONE, ADAPTIVE, *(side.name for side in others.sides))
        steps = plan_steps(plan.conditions, plan.items, sides, plan.repeats, essential)
        watcher.measuring(sum(len(step.sides) * len(step.item.turns) for step in steps))
        return await _collect(steps, system, watcher, compose)


async def _collect(
    steps: Sequence[Step],
    system: Sequence[Turn],
    watcher: Watcher,
    compose: Callable[[Sequence[Sample], bool], Report],
) -> Outcome:
    samples: list[Sample] = []
    told_at = -math.inf
    error: Exception | None = None
    complete = False
    try:
        async for sample in measure(steps, system, EnergyMeter(), watcher.step):
            samples.append(sample)
            watcher.sample(sample)
            if time.monotonic() - told_at >= _TELL_S:
                watcher.so_far(compose(samples, False))
                told_at = time.monotonic()
        complete = True
    except asyncio.CancelledError:
        pass  # Ctrl-C ends the measuring, not the program: there is something to show
    except (SpecchatError, SpecEngineError) as failure:
        error = failure
    return Outcome(compose(samples, complete), error)


async def _local_sides(plan: Plan, runtime: Runtime) -> list[Side]:
    options = AnswerOptions(max_tokens=plan.max_tokens, reproducible=plan.reproducible)
    has_draft_model = len(await runtime.run(lambda pair: pair.files)) > 1
    names = plan.side_names or default_names(has_draft_model=has_draft_model)
    return local_sides(names, runtime, options, has_draft_model=has_draft_model)


async def _composer(
    plan: Plan, sides: Sequence[Side], others: Others, runtime: Runtime
) -> Callable[[Sequence[Sample], bool], Report]:
    """Makes a report of samples; what does not change while measuring is found out now."""
    started_at = datetime.now(UTC)
    pass_s = await runtime.run(
        lambda pair: pair.measure_passes(prefix=_PREFIX, repeats=_PASS_REPEATS)
    )
    files = await runtime.run(lambda pair: pair.files)
    models = [
        await asyncio.to_thread(describe_model, *pair) for pair in zip(files, pass_s, strict=True)
    ]
    peers = None if others.draft is None else await asyncio.to_thread(describe_file, others.draft)
    machine = await asyncio.to_thread(describe_machine, plan.threads or default_threads())
    best = bound(models[0].pass_s)
    greedy = [c.name for c in plan.conditions if c.sampling.temperature == 0]
    names = [side.name for side in sides]
    fixed = [name for name in names if is_fixed(name)]
    pairs = [(name, ALONE) for name in names if name != ALONE]
    pairs += [(ADAPTIVE, side.name) for side in others.sides]

    def compose(samples: Sequence[Sample], complete: bool) -> Report:
        return Report(
            specchat=__version__,
            started_at=started_at,
            complete=complete,
            machine=machine,
            profile=plan.profile.name,
            target=models[0],
            draft=models[1] if len(models) > 1 else None,
            peer_draft=peers,
            sides=tuple(SideInfo(name=s.name, description=s.description) for s in sides),
            conditions=plan.conditions,
            max_tokens=plan.max_tokens,
            repeats=plan.repeats,
            reproducible=plan.reproducible,
            bound=best,
            figures=figures(samples, names, greedy),
            comparisons=with_shares_of_fixed(comparisons(samples, pairs, best), ADAPTIVE, fixed),
            samples=tuple(samples),
        )

    return compose
