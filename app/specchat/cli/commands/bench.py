"""`specchat bench`: speed on this machine, side by side with the target alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from specchat.benchmark.conditions import make_conditions
from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.hybrid import ROUND_TRIPS_MS, HybridPlan
from specchat.benchmark.session import Plan, run
from specchat.benchmark.suite import Item, first_of_each_category, load_suite
from specchat.benchmark.table import render
from specchat.cli.bench_hybrid import bench_hybrid
from specchat.cli.bench_interrupt import INTERRUPTED, ended_as_by_ctrl_c
from specchat.cli.bench_progress import RunProgress
from specchat.cli.bench_result import ResultFile, finish
from specchat.cli.flags import settings_of
from specchat.cli.options import model_options
from specchat.config import locations
from specchat.config.settings import Settings
from specchat.models.registry import Profile, Registry, load_registry
from specchat.models.selection import select_profile
from specchat.wire.address import is_url
from specengine.sampling import SamplingParams

_REPEATS, _MAX_TOKENS = 5, 256
_QUICK_REPEATS, _QUICK_MAX_TOKENS = 1, 64

_HYBRID_ONLY = ("round_trips",)
# A hybrid run has its three ways, a thread for each of its processes, and a line to itself.
_LOCAL_ONLY = (
    *("sides", "repeat", "reproducible", "against", "busy", "offline"),
    *("threads", "gpu_layers", "draft_gpu_layers"),
)


@click.command()
@model_options
@click.option("--categories", metavar="A,B", help="Only prompts of these categories.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), help="First N prompts of each category."
)
@click.option(
    "--prompts",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="JSON lines with id, category, and prompt or turns, in place of the suite.",
)
@click.option(
    "--side",
    "sides",
    metavar="NAME",
    multiple=True,
    help="Compare the target alone with: adaptive, lookup-K or model-K (fixed draft length K).",
)
@click.option(
    "--temperature",
    "temperatures",
    type=float,
    multiple=True,
    help="Default: 0 (greedy) and 0.8.",
)
@click.option("--top-k", type=int, help="Keep the k most probable tokens; 0 is off.")
@click.option("--top-p", type=float, help="Keep the most probable mass p; 1 is off.")
@click.option("--min-p", type=float, help="Drop below p of the most probable; 0 is off.")
@click.option("--max-tokens", type=click.IntRange(min=2), help=f"Default: {_MAX_TOKENS}.")
@click.option("--repeat", type=click.IntRange(min=1), help=f"Default: {_REPEATS}.")
@click.option("--reproducible", is_flag=True, help="Our own sides say the same, bit for bit.")
@click.option(
    "--against",
    metavar="llama-server|PATH",
    help="Compare with llama-server too: of the package xllamacpp, or a program.",
)
@click.option("--hybrid", is_flag=True, help="Target and draft in two processes, a line between.")
@click.option(
    "--round-trip",
    "round_trips",
    metavar="MS",
    type=click.FloatRange(min=0, max=10_000),
    multiple=True,
    help="Length of that line; default: 0, 20, 50, 100 and 200.",
)
@click.option("--busy", is_flag=True, help="Add a row with a busy neighbour process.")
@click.option("--quick", is_flag=True, help="One prompt of each category, short and greedy.")
@click.option("--output", metavar="FILE", type=click.Path(path_type=Path), help="Keep the JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of tables.")
@click.pass_context
def command(context: click.Context, /, output: Path | None, as_json: bool, **flags: Any) -> int:
    """Measure this pair on this machine, side by side and in turn.

    The target alone, each drafter with a fixed draft length, and the controller answer the same
    prompts one after another. Ctrl-C ends the run and shows what it had measured.
    """
    _refuse_what_means_nothing(context)
    settings = settings_of(flags)
    registry = load_registry(locations.registry_file())
    profile = select_profile(
        registry,
        settings,
        profile=flags["profile"],
        target=flags["target"],
        draft=flags["draft"],
        system=flags["system"],
    )
    if is_url(profile.target):
        raise BenchmarkError(f"{profile.target} is elsewhere: only this machine is measured")
    items = load_suite(flags["prompts"], _names(flags["categories"]))
    result = ResultFile(output)
    with ended_as_by_ctrl_c():
        if flags["hybrid"]:
            hybrid = _hybrid_plan(profile, items, flags)
            return bench_hybrid(hybrid, registry, result, as_json=as_json)
        return _bench(_plan(profile, items, settings, flags), registry, result, as_json=as_json)


def _refuse_what_means_nothing(context: click.Context) -> None:
    hybrid = context.params["hybrid"]
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if given and option.name in (_LOCAL_ONLY if hybrid else _HYBRID_ONLY):
            word = "with" if hybrid else "without"
            raise click.UsageError(f"{option.opts[0]} means nothing {word} --hybrid")
    if hybrid and len(context.params["temperatures"]) > 1:
        raise click.UsageError("--hybrid takes one --temperature")


def _bench(plan: Plan, registry: Registry, result: ResultFile, *, as_json: bool) -> int:
    """Measure, keep, show; the exit code."""
    with RunProgress(so_far=result.write) as progress:
        outcome = asyncio.run(run(plan, registry, progress))
    finish(outcome.report, render, result, as_json=as_json)
    if outcome.error is not None:
        raise outcome.error
    return 0 if outcome.report.complete else INTERRUPTED


def _plan(
    profile: Profile, items: tuple[Item, ...], settings: Settings, flags: dict[str, Any]
) -> Plan:
    quick = flags["quick"]
    limit = flags["limit"] or (1 if quick else None)
    return Plan(
        profile=profile,
        items=items if limit is None else first_of_each_category(items, limit),
        conditions=make_conditions(
            flags["temperatures"] or ((0.0,) if quick else (0.0, 0.8)),
            _truncation(flags),
            untruncated=not quick,
            busy=flags["busy"],
        ),
        side_names=flags["sides"],
        against=flags["against"],
        repeats=flags["repeat"] or (_QUICK_REPEATS if quick else _REPEATS),
        max_tokens=flags["max_tokens"] or (_QUICK_MAX_TOKENS if quick else _MAX_TOKENS),
        reproducible=flags["reproducible"],
        threads=settings.threads,
        gpu_layers=settings.gpu,
        offline=settings.offline,
    )


def _hybrid_plan(profile: Profile, items: tuple[Item, ...], flags: dict[str, Any]) -> HybridPlan:
    return HybridPlan(
        profile,
        first_of_each_category(items, flags["limit"] or 1),
        SamplingParams.checked(
            temperature=(flags["temperatures"] or (0.0,))[0], **_truncation(flags)
        ),
        flags["round_trips"] or ROUND_TRIPS_MS,
        flags["max_tokens"] or _QUICK_MAX_TOKENS,
    )


def _truncation(flags: dict[str, Any]) -> dict[str, float]:
    names = ("top_k", "top_p", "min_p")
    return {name: flags[name] for name in names if flags[name] is not None}


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]
