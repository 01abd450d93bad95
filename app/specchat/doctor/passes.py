"""What passes of the models cost on this machine, and when that was measured."""

from __future__ import annotations

import time
from collections.abc import Callable

from specchat.backends.pass_costs import CostStore, KeptCosts
from specchat.backends.runtime import Runtime
from specchat.config import locations
from specchat.config.settings import load_settings
from specchat.doctor.check import Check
from specchat.errors import SpecchatError
from specchat.models.registry import load_registry
from specengine.cache.costs import PassCosts
from specengine.cache.measurement import Measurement
from specengine.core.events import Progress

NAME = "passes"
MEASURE = "specchat doctor --measure"

_SHOWN = (2, 4, 8)
_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"))


def check_passes() -> list[Check]:
    """A line for each model of which costs are kept. Raises nothing."""
    try:
        threads = load_settings().threads
    except SpecchatError:
        return []  # another check tells of that
    known = CostStore(locations.pass_costs_file(), threads).here()
    if not known:
        return [Check(NAME, "ok", "not measured yet: a second or two before a model's first draft")]
    return [_check(name, costs, time.time()) for name, costs in sorted(known.items())]


async def measure_again(on_event: Callable[[Progress], None]) -> None:
    """Measure what passes cost of the models of the person's profile, and keep it.

    Raises SpecchatError or SpecEngineError, also if the models are not on this computer.
    """
    settings, registry = load_settings(), load_registry(locations.registry_file())
    runtime = Runtime(
        registry,
        n_threads=settings.threads,
        gpu_layers=settings.gpu,
        offline=True,
        convert_drafts=settings.convert_drafts,
    )
    try:
        await runtime.load(registry.profile(settings.profile), on_event)
        await runtime.run(lambda pair: pair.calibrate(anew=True))
    finally:
        await runtime.close()  # which keeps the costs


def _check(name: str, costs: KeptCosts, now: float) -> Check:
    passes = PassCosts(costs.seconds)
    alone = passes.seconds(1)
    wider = [
        f"{width} rows {passes.seconds(width) / alone:.2g}"
        for width in _SHOWN
        if any(known >= width for known in costs.seconds if known < 32)
    ]
    detail = ", ".join((f"{name}: {1000 * alone:.3g} ms a token", *wider))
    measured = costs.measured
    if measured is None:
        return Check(NAME, "ok", f"{detail}; learned from answers, not measured by itself")
    detail = f"{detail}; measured {_conditions(measured, now)}"
    if measured.is_noisy:
        return Check(NAME, "warn", f"{detail}: the machine was busy", MEASURE)
    return Check(NAME, "ok", detail)


def _conditions(measured: Measurement, now: float) -> str:
    words = [f"{age(now - measured.at)} ago", f"{measured.passes} passes"]
    words.append(f"{max(measured.spread, measured.drift):.0%} apart")
    if measured.load is not None:
        words.append(f"{measured.load:.0%} of the CPU busy with others")
    return ", ".join(words)


def age(seconds: float) -> str:
    """`seconds` in the largest unit that fits: `3 days`, `1 hour`."""
    for unit, name in _UNITS:
        if seconds >= unit:
            count = int(seconds // unit)
            return f"{count} {name}{'s' * (count > 1)}"
    return "less than a minute"
