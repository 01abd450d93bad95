"""A report as tables for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specchat.benchmark.plot import ALL, plot
from specchat.benchmark.report import Comparison, Figures, Report
from specchat.benchmark.sides import ADAPTIVE
from specchat.benchmark.summary import ALONE


def render(report: Report) -> RenderableType:
    """All of it, in at most 80 columns: what is wider than a terminal cannot be compared."""
    parts: list[RenderableType] = [Text(line) for line in _head(report)]
    for condition in report.conditions:
        figures = [f for f in report.figures if f.condition == condition.name]
        if figures:
            parts += ["", _speed_table(condition.name, figures, report.comparisons)]
            if (bars := plot(condition.name, report.comparisons)) is not None:
                parts += ["", bars]
            parts += ["", _work_table(condition.name, figures)]
            if (peers := _peer_table(condition.name, report.comparisons)) is not None:
                parts += ["", peers]
    return Group(*parts)


def _head(report: Report) -> Iterator[str]:
    drafts = f", {report.draft.name} ({report.draft.quantization}) drafts" if report.draft else ""
    yield f"{report.profile}: {report.target.name} ({report.target.quantization}){drafts}"
    machine = report.machine
    yield f"{machine.cpu}, {machine.threads} threads, llama-cpp-python {machine.llama_cpp_python}"
    yield from (f"{side.name}: {side.description}" for side in report.sides)
    yield (
        f"at most {report.max_tokens} tokens an answer, repeats: {report.repeats}; a free and "
        f"perfect drafter would bring × {report.bound:.2f}"
    )
    if not report.complete:
        yield "stopped early: this is what had been measured"


def _speed_table(
    condition: str, figures: Sequence[Figures], comparisons: Sequence[Comparison]
) -> Table:
    """How fast each side is, and how much faster than the target alone; below it, how near the
    controller comes to the best fixed draft length of each category.
    """
    ratios = {
        (c.category, c.side): c for c in comparisons if c.condition == condition and c.over == ALONE
    }
    columns = ("", "side", "tokens/s", "×", "spread", "worst", "bound")
    table = _plain_table(f"{condition}: speed, × {ALONE}", columns)
    for label, f in _labelled(figures):
        speed = "" if f.tokens_per_s is None else f"{f.tokens_per_s.median:.1f}"
        table.add_row(label, f.side, speed, *_ratio_cells(ratios.get((f.category, f.side))))
    shares = [f"{c.category or ALL} {c.of_fixed:.0%}" for c in ratios.values() if c.of_fixed]
    if shares:
        table.caption = f"of the best fixed draft length: {', '.join(shares)}"
    return table


def _work_table(condition: str, figures: Sequence[Figures]) -> Table:
    """What drafting brought, and what it cost."""
    with_energy = any(f.joules_per_token is not None for f in figures)
    columns = ("", "side", "accepted", "per pass", "first", "overhead", "same text")
    table = _plain_table(f"{condition}: work", (*columns, "J/token") if with_energy else columns)
    for label, f in _labelled(figures):
        cells = [percent(f.acceptance_rate), _number(f.tokens_per_pass)]
        cells += [f"{f.ttft_s.median:.2f} s", percent(f.overhead, 1), percent(f.same_text)]
        cells += [_number(f.joules_per_token)] if with_energy else []
        table.add_row(label, f.side, *cells)
    return table


def _labelled(figures: Sequence[Figures]) -> Iterator[tuple[str, Figures]]:
    """Each row with its category, where that differs from the row above."""
    above: str | None = None
    for f in figures:
        label = f.category or ALL
        yield "" if label == above else label, f
        above = label


def _peer_table(condition: str, comparisons: Sequence[Comparison]) -> Table | None:
    """The controller over sides that are not our own pair; None if there was none."""
    rows = [c for c in comparisons if c.condition == condition and c.over != ALONE]
    if not rows:
        return None
    columns = ("over", "", "×", "spread", "worst")
    table = _plain_table(f"{condition}: {ADAPTIVE} over the peer", columns)
    for row in rows:
        ratio, spread, worst, _ = _ratio_cells(row)
        table.add_row(row.over, row.category or ALL, ratio, spread, worst)
    return table


def _plain_table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, box=None, pad_edge=False, header_style="bold", title_justify="left")
    for column in columns:
        left = column in ("", "side", "over", "worst")
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    return table


def _ratio_cells(row: Comparison | None) -> list[str]:
    """Ratio, spread, worst prompt, share of the bound."""
    if row is None:
        return ["", "", "", ""]
    turn = f"/{row.worst.turn}" if row.worst.turn > 1 else ""
    return [
        f"{row.ratio.median:.2f}",
        f"{row.ratio.low:.2f}–{row.ratio.high:.2f}",
        f"{row.worst.ratio:.2f} {row.worst.prompt}{turn}",
        percent(row.of_bound),
    ]


def percent(share: float | None, digits: int = 0) -> str:
    """Empty for None."""
    return "" if share is None else f"{100 * share:.{digits}f}%"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
