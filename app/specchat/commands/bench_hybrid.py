"""`specchat bench --hybrid`: what drafting here for a target elsewhere brings, by round trip."""

from __future__ import annotations

import click

from specchat.benchmark.hybrid import HybridPlan, run
from specchat.benchmark.hybrid_report import render
from specchat.commands.bench_interrupt import INTERRUPTED
from specchat.commands.bench_result import ResultFile, finish
from specchat.models.registry import Registry


def bench_hybrid(plan: HybridPlan, registry: Registry, result: ResultFile, *, as_json: bool) -> int:
    """Measure, keep, show; the exit code. Raises SpecchatError, SpecEngineError."""
    report = run(plan, registry, lambda words: click.echo(words, err=True))
    finish(report, render, result, as_json=as_json)
    return 0 if report.complete else INTERRUPTED
