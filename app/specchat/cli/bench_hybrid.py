"""`specchat bench --hybrid`: what drafting here for a target elsewhere brings, by round trip."""

from __future__ import annotations

import click

from specchat.benchmark.hybrid import HybridPlan, run
from specchat.benchmark.hybrid_report import render
from specchat.cli.bench_interrupt import INTERRUPTED
from specchat.cli.bench_result import ResultFile, finish
from specchat.models.registry import Registry


def bench_hybrid(plan: HybridPlan, registry: Registry, result: ResultFile, *, as_json: bool) -> int:
    """Measure, keep, show; the exit code. Raises SpecchatError, SpecEngineError."""
    outcome = run(plan, registry, lambda words: click.echo(words, err=True))
    finish(outcome.report, render, result, as_json=as_json)
    if outcome.error is not None:
        raise outcome.error
    return 0 if outcome.report.complete else INTERRUPTED
