"""`specchat bench`: speed on this machine, side by side with the target alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from specchat.benchmark.conditions import make_conditions
from specchat.benchmark.session import OpenOthers, Plan, run
from specchat.benchmark.suite import first_of_each_category
from specchat.benchmark.table import render
from specchat.cli.bench_interrupt import INTERRUPTED, ended_as_by_ctrl_c
from specchat.cli.bench_options import (
    Subject,
    prompt_options,
    result_options,
    subject_of,
    truncation_of,
)
from specchat.cli.bench_progress import RunProgress
from specchat.cli.bench_result import ResultFile, finish
from specchat.cli.options import model_options, truncation_options, with_options

F = TypeVar("F", bound=Callable[..., Any])

_REPEATS, _MAX_TOKENS = 5, 256
_QUICK_REPEATS, _QUICK_MAX_TOKENS = 1, 64


def comparison_options(command: F) -> F:
    """All that `compare` takes."""
    return with_options(
        command,
        model_options,
        prompt_options,
        click.option(
            "--side",
            "sides",
            metavar="NAME",
            multiple=True,
            help="Compare the target alone with: adaptive, lookup-K or model-K (fixed draft "
            "length K).",
        ),
        click.option(
            "--temperature",
            "temperatures",
            type=float,
            multiple=True,
            help="Default: 0 (greedy) and 0.8.",
        ),
        truncation_options,
        click.option("--max-tokens", type=click.IntRange(min=2), help=f"Default: {_MAX_TOKENS}."),
        click.option("--repeat", type=click.IntRange(min=1), help=f"Default: {_REPEATS}."),
        click.option(
            "--reproducible",
            is_flag=True,
            help="Keep the text of specchat's own sides the same, bit for bit.",
        ),
        click.option("--busy", is_flag=True, help="Measure beside a busy process, too."),
        click.option(
            "--quick", is_flag=True, help="One prompt of each category, short and greedy."
        ),
        result_options,
    )


@click.command()
@comparison_options
def command(**flags: Any) -> int:
    """Measure a pair on this machine against its target alone.

    The target alone, each drafter with a fixed draft length, and the controller answer the same
    prompts one after another. Ctrl-C ends the run and shows what it had measured.
    """
    return compare(flags)


def compare(flags: Mapping[str, Any], open_others: OpenOthers | None = None) -> int:
    """Measure what `comparison_options` say, keep it, show it; the exit code.

    `open_others`: as in `session.run`. Raises SpecchatError, SpecEngineError.
    """
    subject = subject_of(flags)
    result = ResultFile(flags["output"])
    with ended_as_by_ctrl_c():
        plan = _plan(subject, flags)
        with RunProgress(so_far=result.write) as progress:
            outcome = asyncio.run(run(plan, subject.registry, progress, open_others))
        finish(outcome.report, render, result, as_json=flags["as_json"])
        if outcome.error is not None:
            raise outcome.error
        return 0 if outcome.report.complete else INTERRUPTED


def _plan(subject: Subject, flags: Mapping[str, Any]) -> Plan:
    quick = flags["quick"]
    limit = flags["limit"] or (1 if quick else None)
    settings = subject.settings
    return Plan(
        profile=subject.profile,
        items=subject.items if limit is None else first_of_each_category(subject.items, limit),
        conditions=make_conditions(
            flags["temperatures"] or ((0.0,) if quick else (0.0, 0.8)),
            truncation_of(flags),
            untruncated=not quick,
            busy=flags["busy"],
        ),
        side_names=flags["sides"],
        repeats=flags["repeat"] or (_QUICK_REPEATS if quick else _REPEATS),
        max_tokens=flags["max_tokens"] or (_QUICK_MAX_TOKENS if quick else _MAX_TOKENS),
        reproducible=flags["reproducible"],
        threads=settings.threads,
        gpu_layers=settings.gpu,
        offline=settings.offline,
        convert_drafts=settings.convert_drafts,
    )
