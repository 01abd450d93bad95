"""`specchat bench --hybrid`: what drafting here for a target elsewhere brings, by round trip."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.hybrid import HybridPlan, run
from specchat.benchmark.hybrid_report import render
from specchat.models.registry import Registry

_INTERRUPTED = 130


def bench_hybrid(
    plan: HybridPlan, registry: Registry, output: Path | None, *, as_json: bool
) -> int:
    """Measure, show, keep; the exit code. Raises SpecchatError, SpecEngineError."""
    report = run(plan, registry, lambda words: click.echo(words, err=True))
    content = report.model_dump_json(indent=1)
    if as_json:
        click.echo(content)
    else:
        Console().print(render(report))
    if output is not None:
        try:
            output.write_text(content + "\n", encoding="utf-8")
        except OSError as error:
            reason = error.strerror or error
            raise BenchmarkError(f"{output} cannot be written: {reason}") from error
    return 0 if report.complete else _INTERRUPTED
