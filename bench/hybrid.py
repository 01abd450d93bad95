"""What drafting here for a target on another machine brings, by round trip.

    python bench/hybrid.py --profile laptop --round-trip 0 --round-trip 50

Target and draft model run in two processes of this machine, with a line of any length between.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from remote.report import render
from remote.run import ROUND_TRIPS_MS, HybridPlan, run
from specchat.benchmark.suite import first_of_each_category
from specchat.cli.bench_interrupt import INTERRUPTED, ended_as_by_ctrl_c
from specchat.cli.bench_options import (
    prompt_options,
    result_options,
    subject_of,
    truncation_of,
)
from specchat.cli.bench_result import ResultFile, finish
from specchat.cli.main import run_program
from specchat.cli.options import profile_options, truncation_options
from specengine.sampling import SamplingParams


@click.command("hybrid.py")
@profile_options
@prompt_options
@click.option("--temperature", type=float, default=0.0, show_default=True, help="0 is greedy.")
@truncation_options
@click.option("--max-tokens", type=click.IntRange(min=2), default=64, show_default=True)
@click.option(
    "--round-trip",
    "round_trips",
    metavar="MS",
    type=click.FloatRange(min=0, max=10_000),
    multiple=True,
    help="Length of the line; default: 0, 20, 50, 100 and 200.",
)
@result_options
def command(output: Path | None, as_json: bool, **flags: Any) -> int:
    """Measure streaming, hybrid mode and asking in rounds, one right after the other.

    The first prompt of each category is answered, with --limit more. Ctrl-C ends the run and shows
    what it had measured.
    """
    subject = subject_of(flags)
    result = ResultFile(output)
    plan = HybridPlan(
        subject.profile,
        first_of_each_category(subject.items, flags["limit"] or 1),
        SamplingParams.checked(temperature=flags["temperature"], **truncation_of(flags)),
        flags["round_trips"] or ROUND_TRIPS_MS,
        flags["max_tokens"],
    )
    with ended_as_by_ctrl_c():
        outcome = run(plan, subject.registry, lambda words: click.echo(words, err=True))
        finish(outcome.report, render, result, as_json=as_json)
        if outcome.error is not None:
            raise outcome.error
        return 0 if outcome.report.complete else INTERRUPTED


if __name__ == "__main__":
    run_program(command)
