"""A plot for the terminal: bars to the right of the target alone are faster, to the left slower."""

from __future__ import annotations

from collections.abc import Sequence

from rich.bar import Bar
from rich.table import Table

from specchat.benchmark.report import Comparison
from specchat.benchmark.summary import ALONE

ALL = "all"
_WIDTH = 40
_LEAST_SPAN = 0.5  # of the scale on either side of 1, so that noise looks like noise


def plot(condition: str, comparisons: Sequence[Comparison]) -> Table | None:
    """Each side over the target alone, by category; None if nothing was compared."""
    rows = [c for c in comparisons if c.condition == condition and c.over == ALONE]
    if not rows:
        return None
    low = min(1 - _LEAST_SPAN, *(row.ratio.median for row in rows))
    high = max(1 + _LEAST_SPAN, *(row.ratio.median for row in rows))
    table = Table(box=None, pad_edge=False, show_header=False)
    shown: str | None = None
    for row in sorted(rows, key=lambda row: _order(row, rows)):
        category = row.category or ALL
        median = row.ratio.median
        bar = Bar(
            size=high - low,
            begin=min(1.0, median) - low,
            end=max(1.0, median) - low,
            width=_WIDTH,
            color="green" if median >= 1 else "red",
        )
        table.add_row(category if category != shown else "", row.side, bar, f"{median:.2f}")
        shown = category
    return table


def _order(row: Comparison, rows: Sequence[Comparison]) -> tuple[bool, int]:
    """By category, in the order of their first appearance, all of them together last."""
    categories = list(dict.fromkeys(r.category for r in rows))
    return row.category is None, categories.index(row.category)
