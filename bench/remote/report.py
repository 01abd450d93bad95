"""What a hybrid run measured, and its table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from remote.simulation import Scene, ask_and_wait, duplex, streaming
from specchat.doctor.machine import Machine, ModelInfo
from specengine.cache.costs import PassCosts
from specengine.sampling import SamplingParams

Way = Literal["streaming", "hybrid", "asking"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HybridSample(_Part):
    """One answer. Bytes are those on the line, HTTP and all."""

    round_trip_ms: float
    category: str
    prompt: str
    way: Way
    tokens: int
    decode_s: float
    """From the first token to the end of the answer."""
    passes: int
    drafted: int
    accepted: int
    corrected: int
    bytes_up: int
    bytes_down: int
    digest: str

    @property
    def tokens_per_s(self) -> float:
        return (self.tokens - 1) / self.decode_s


class HybridRow(_Part):
    """One category at one distance; None stands for all of them together (geometric means).

    Ratios are to plain streaming of the same server, measured in turn; a category counts by the
    median of its prompts. `simulated_…`: what the simulation makes of v(n), d and acceptance.
    """

    round_trip_ms: float
    category: str | None
    streaming_tokens_per_s: float
    hybrid: float
    asking: float
    simulated_hybrid: float
    simulated_asking: float
    acceptance: float | None
    """Chance that a draft token is accepted if all before it were."""
    bytes_up_per_token: float
    bytes_down_per_token: float
    same_text: bool
    """Whether all three ways gave the same tokens."""


class HybridReport(_Part):
    format: Literal[1] = 1
    specchat: str
    started_at: datetime
    complete: bool
    machine: Machine | None = None
    """`threads`: of the server, and of the client. Early reports lack what is None by default."""
    profile: str | None = None
    target: str
    target_file: ModelInfo | None = None
    draft: str
    draft_file: ModelInfo | None = None
    cpu: str
    pinned: tuple[int, int] | None
    """The cores of the server and of the client; None where both may use all of them."""
    sampling: SamplingParams | None = None
    max_tokens: int | None = None
    asking_draft_length: int
    pass_s: dict[int, float]
    """v(n) by width, as the server's clock tells it."""
    draft_s: float
    """d."""
    rows: tuple[HybridRow, ...]
    samples: tuple[HybridSample, ...]


def rows_of(
    samples: Sequence[HybridSample], pass_s: dict[int, float], draft_s: float, k: int
) -> tuple[HybridRow, ...]:
    """A row for each distance and category in which all three ways have answered."""
    rows: list[HybridRow] = []
    for round_trip_ms in dict.fromkeys(s.round_trip_ms for s in samples):
        near = [s for s in samples if s.round_trip_ms == round_trip_ms]
        categories = []
        for name in dict.fromkeys(s.category for s in near):
            own = [s for s in near if s.category == name]
            if _whole(own):
                categories.append(_row(round_trip_ms, name, own, pass_s, draft_s, k))
        rows += [*categories, *([_mean(categories)] if categories else [])]
    return tuple(rows)


def _row(
    round_trip_ms: float,
    category: str,
    samples: Sequence[HybridSample],
    pass_s: dict[int, float],
    draft_s: float,
    k: int,
) -> HybridRow:
    whole = _whole(samples)
    accepted = sum(s.accepted for s in samples)
    tried = accepted + sum(s.corrected for s in samples)
    acceptance = accepted / tried if tried else None
    scene = Scene(round_trip_ms / 1000, PassCosts(pass_s).seconds, draft_s, acceptance or 0.0)
    hybrid = [s for s in samples if s.way == "hybrid"]
    texts = {s.prompt: {t.digest for t in samples if t.prompt == s.prompt} for s in samples}
    tokens = sum(s.tokens for s in hybrid)
    return HybridRow(
        round_trip_ms=round_trip_ms,
        category=category,
        streaming_tokens_per_s=statistics.median(r["streaming"] for r in whole),
        hybrid=statistics.median(r["hybrid"] / r["streaming"] for r in whole),
        asking=statistics.median(r["asking"] / r["streaming"] for r in whole),
        simulated_hybrid=duplex(scene) / streaming(scene),
        simulated_asking=ask_and_wait(scene, k) / streaming(scene),
        acceptance=acceptance,
        bytes_up_per_token=sum(s.bytes_up for s in hybrid) / tokens,
        bytes_down_per_token=sum(s.bytes_down for s in hybrid) / tokens,
        same_text=all(len(digests) == 1 for digests in texts.values()),
    )


def _whole(samples: Sequence[HybridSample]) -> list[dict[Way, float]]:
    """Tokens a second by way, of each prompt that all three have answered."""
    rates: dict[str, dict[Way, float]] = {}
    for sample in samples:
        rates.setdefault(sample.prompt, {})[sample.way] = sample.tokens_per_s
    return [by_way for by_way in rates.values() if len(by_way) == 3]


def _mean(rows: Sequence[HybridRow]) -> HybridRow:
    def mean(of: Callable[[HybridRow], float]) -> float:
        return math.exp(statistics.fmean(math.log(of(row)) for row in rows))

    known = [row.acceptance for row in rows if row.acceptance is not None]
    return HybridRow(
        round_trip_ms=rows[0].round_trip_ms,
        category=None,
        streaming_tokens_per_s=mean(lambda row: row.streaming_tokens_per_s),
        hybrid=mean(lambda row: row.hybrid),
        asking=mean(lambda row: row.asking),
        simulated_hybrid=mean(lambda row: row.simulated_hybrid),
        simulated_asking=mean(lambda row: row.simulated_asking),
        acceptance=statistics.fmean(known) if known else None,
        bytes_up_per_token=mean(lambda row: row.bytes_up_per_token),
        bytes_down_per_token=mean(lambda row: row.bytes_down_per_token),
        same_text=all(row.same_text for row in rows),
    )


def render(report: HybridReport) -> RenderableType:
    """A table within 80 columns."""
    columns = ("ms", "", "tok/s", "hybrid", "(sim)", "asking", "(sim)", "acc.", "B up", "B down")
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    table.title = "× plain streaming of the same server, by round trip"
    for column in (*columns, "same"):
        table.add_column(column, justify="left" if column == "" else "right", no_wrap=True)
    above: float | None = None
    for row in report.rows:
        table.add_row(
            "" if row.round_trip_ms == above else f"{row.round_trip_ms:g}",
            row.category or "all",
            f"{row.streaming_tokens_per_s:.1f}",
            *(f"{x:.2f}" for x in (row.hybrid, row.simulated_hybrid)),
            *(f"{x:.2f}" for x in (row.asking, row.simulated_asking)),
            "" if row.acceptance is None else f"{100 * row.acceptance:.0f}%",
            *(f"{x:.0f}" for x in (row.bytes_up_per_token, row.bytes_down_per_token)),
            "yes" if row.same_text else "no",
        )
        above = row.round_trip_ms
    return Group(*(Text(line) for line in _head(report)), "", table)


def _head(report: HybridReport) -> Iterable[str]:
    widths = ", ".join(f"{n}: {1000 * s:.0f}" for n, s in sorted(report.pass_s.items())[:6])
    yield f"{report.target} verifies, {report.draft} drafts; {report.cpu}"
    if report.pinned is None:
        yield "server and client share all cores: they take them from each other"
    else:
        yield f"server on core {report.pinned[0]}, client on core {report.pinned[1]}"
    yield f"pass of n tokens, ms: {widths}; draft token {1000 * report.draft_s:.1f} ms"
    yield f"asking: rounds of {report.asking_draft_length} draft tokens, each waited for"
    if not report.complete:
        yield "stopped early: this is what had been measured"
