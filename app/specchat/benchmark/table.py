"""A report as tables for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specchat.benchmark.plot import ALL, plot
from specchat.benchmark.report import Comparison, Figures, Report, Spread
from specchat.benchmark.sides import ADAPTIVE
from specchat.benchmark.summary import ALONE

_Rows = dict[tuple[str | None, str], Comparison]


def render(report: Report) -> RenderableType:
    parts: list[RenderableType] = [Text(line) for line in _head(report)]
    for condition in report.conditions:
        figures = [f for f in report.figures if f.condition == condition.name]
        if figures:
            parts += ["", _table(condition.name, figures, report)]
            if (bars := plot(condition.name, report.comparisons)) is not None:
                parts += ["", bars]
    if (peers := _over_peers(report)) is not None:
        parts += ["", peers]
    return Group(*parts)


def _head(report: Report) -> Iterator[str]:
    drafts = f", {report.draft.name} ({report.draft.quantization}) drafts" if report.draft else ""
    yield f"{report.profile}: {report.target.name} ({report.target.quantization}){drafts}"
    machine = report.machine
    yield f"{machine.cpu}, {machine.threads} threads, llama-cpp-python {machine.llama_cpp_python}"
    yield from (f"{side.name}: {side.description}" for side in report.sides)
    yield (
        f"at most {report.max_tokens} tokens an answer, {report.repeats} repeats; a free and "
        f"perfect drafter would bring × {report.bound:.2f}"
    )
    if not report.complete:
        yield "stopped early: this is what had been measured"


def _table(condition: str, figures: Sequence[Figures], report: Report) -> Table:
    """A line for each category and side."""
    ratios: _Rows = {
        (c.category, c.side): c
        for c in report.comparisons
        if c.condition == condition and c.over == ALONE
    }
    with_energy = any(f.joules_per_token is not None for f in figures)
    table = _plain_table(
        condition,
        ("", "side", "tokens/s", f"× {ALONE}", "spread", "worst", "of bound", "accepted")
        + ("tokens/pass", "first token", "overhead", "same text")
        + (("J/token",) if with_energy else ()),
    )
    for category in dict.fromkeys(f.category for f in figures):
        for index, f in enumerate(f for f in figures if f.category == category):
            cells = [(category or ALL) if index == 0 else "", f.side, _median(f.tokens_per_s)]
            cells += _ratio_cells(ratios.get((category, f.side)))
            cells += [_percent(f.acceptance_rate), _number(f.tokens_per_pass, 2)]
            cells += [f"{f.ttft_s.median:.2f} s", _percent(f.overhead, 1), _percent(f.same_text)]
            cells += [_number(f.joules_per_token, 2)] if with_energy else []
            table.add_row(*cells)
        table.add_section()
    return table


def _over_peers(report: Report) -> Table | None:
    """The controller over llama-server."""
    rows = [c for c in report.comparisons if c.side == ADAPTIVE and c.over != ALONE]
    if not rows:
        return None
    table = _plain_table(
        f"{ADAPTIVE} over the peer",
        ("condition", "over", "category", "×", "spread", "worst"),
    )
    for row in rows:
        ratio, spread, worst, _ = _ratio_cells(row)
        table.add_row(row.condition, row.over, row.category or ALL, ratio, spread, worst)
    return table


def _plain_table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, box=None, pad_edge=False, header_style="bold", title_justify="left")
    for column in columns:
        left = column in ("", "side", "condition", "over", "category", "worst")
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    return table


def _ratio_cells(row: Comparison | None) -> list[str]:
    """Ratio, spread, worst prompt, share of the bound."""
    if row is None:
        return ["", "", "", ""]
    turn = f" turn {row.worst.turn}" if row.worst.turn > 1 else ""
    return [
        f"{row.ratio.median:.2f}",
        f"{row.ratio.low:.2f}–{row.ratio.high:.2f}",
        f"{row.worst.ratio:.2f} {row.worst.prompt}{turn}",
        _percent(row.of_bound),
    ]


def _median(spread: Spread | None) -> str:
    return "" if spread is None else f"{spread.median:.1f}"


def _percent(share: float | None, digits: int = 0) -> str:
    return "" if share is None else f"{100 * share:.{digits}f}%"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
