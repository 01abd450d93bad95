"""The tables of results/README.md, made from the reports beside it.

python bench/tables.py bench/results/*.json
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from specchat.benchmark.report import Comparison, Report
from specchat.benchmark.sides import ADAPTIVE
from specchat.benchmark.summary import ALONE
from specchat.benchmark.table import percent

PEERS = {"llama-server-alone": "llama-server", "llama-server": "llama-server with its draft"}
"""Sides of a peer, and what the heading calls them."""


def table(report: Report) -> list[str]:
    """Lines of Markdown: the controller in each category, as medians over prompts."""
    compared = {(c.condition, c.category, c.side, c.over): c for c in report.comparisons}
    outside = {(f.condition, f.category, f.side): f.overhead for f in report.figures}
    peers = [peer for peer in PEERS if any(side.name == peer for side in report.sides)]
    heads = ["", "prompts", "over alone", "of the bound"]
    heads += [f"over {PEERS[peer]}" for peer in peers]
    heads += ["outside llama.cpp, alone", "controller"]
    lines = [_row(heads), _row(["---"] * len(heads))]
    for comparison in report.comparisons:
        condition, category = comparison.condition, comparison.category
        if (comparison.side, comparison.over) != (ADAPTIVE, ALONE):
            continue
        cells = [_label(report, comparison), str(comparison.prompts), _ratio(comparison)]
        cells.append(percent(comparison.of_bound))
        cells += [_ratio(compared.get((condition, category, ADAPTIVE, peer))) for peer in peers]
        cells += [
            percent(outside.get((condition, category, side)), 1) for side in (ALONE, ADAPTIVE)
        ]
        lines.append(_row(cells))
    return lines


def reports(files: list[Path]) -> Iterator[tuple[Path, Report]]:
    """Those of `files` that are reports of a run with sides; `hybrid.py` writes others."""
    for file in files:
        try:
            yield file, Report.model_validate_json(file.read_bytes())
        except ValidationError:
            continue


def _label(report: Report, comparison: Comparison) -> str:
    category = comparison.category or "all, geometric mean"
    return category if len(report.conditions) == 1 else f"{comparison.condition}: {category}"


def _ratio(comparison: Comparison | None) -> str:
    """Median, and the worst prompt."""
    if comparison is None:
        return ""
    return f"{comparison.ratio.median:.2f} ({comparison.worst.ratio:.2f})"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    for file, report in reports([Path(name) for name in sys.argv[1:]]):
        print(f"\n`{file.name}`\n")
        print("\n".join(table(report)))
