"""From single answers to figures a person can compare: medians, spreads, ratios, worst cases."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from specchat.benchmark.report import Comparison, Figures, Sample, Spread, Worst

ALONE = "alone"
"""The side that all others are compared with: the target alone."""


class Round(NamedTuple):
    """The answers of all sides to one question, made in turn."""

    condition: str
    category: str
    prompt: str
    turn: int
    repeat: int


def bound(pass_s: Mapping[int, float]) -> float:
    """max_n n/v(n)·v(1): the speed-up with drafts that cost nothing and are always right.

    `pass_s`: v(n), seconds of a target pass over n tokens.
    """
    return max(n * pass_s[1] / seconds for n, seconds in pass_s.items())


def figures(
    samples: Sequence[Sample], sides: Sequence[str], greedy: Collection[str]
) -> tuple[Figures, ...]:
    """A row for each condition, category and side, and one for all categories together.

    `greedy`: the conditions under which all sides should say the same.
    """
    digests = {_round(s): s.digest for s in samples if s.side == ALONE and s.condition in greedy}
    groups: dict[tuple[str, str | None, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        for category in (sample.category, None):
            groups[sample.condition, category, sample.side].append(sample)
    conditions = dict.fromkeys(sample.condition for sample in samples)
    categories = [*dict.fromkeys(sample.category for sample in samples), None]
    return tuple(
        _figures(condition, category, side, groups[condition, category, side], digests)
        for condition, category, side in product(conditions, categories, sides)
        if (condition, category, side) in groups
    )


def comparisons(
    samples: Sequence[Sample], pairs: Iterable[tuple[str, str]], bound: float
) -> tuple[Comparison, ...]:
    """The ratios of each (side, over) of `pairs`, by category and over all categories."""
    rates: dict[Round, dict[str, float]] = defaultdict(dict)
    for sample in samples:
        if sample.tokens_per_s is not None:
            rates[_round(sample)][sample.side] = sample.tokens_per_s
    conditions = list(dict.fromkeys(key.condition for key in rates))
    result: list[Comparison] = []
    for condition in conditions:
        for side, over in pairs:
            rows = _compared(condition, side, over, rates, bound)
            result += [*rows, *([_mean(rows, bound)] if rows else [])]
    return tuple(result)


def with_shares_of_fixed(
    rows: Sequence[Comparison], side: str, fixed: Collection[str]
) -> tuple[Comparison, ...]:
    """`rows`, those of `side` over the target alone with `of_fixed`: `fixed` names the sides that
    always make the same choice. Without any there are no shares.
    """
    best: dict[tuple[str, str | None], float] = {}
    for row in rows:
        if row.over == ALONE and row.side in fixed:
            key = row.condition, row.category
            best[key] = max(best.get(key, 1.0), row.ratio.median)
    shares: dict[str, list[float]] = defaultdict(list)
    result = []
    for row in rows:
        share = None
        if (row.side, row.over) == (side, ALONE) and (row.condition, row.category) in best:
            if row.category is None:
                share = statistics.geometric_mean(shares[row.condition])
            else:
                share = row.ratio.median / best[row.condition, row.category]
                shares[row.condition].append(share)
        result.append(row.model_copy(update={"of_fixed": share}))
    return tuple(result)


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles of at least one value."""
    if len(values) == 1:
        return Spread(median=values[0], low=values[0], high=values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median=median, low=low, high=high)


def _round(sample: Sample) -> Round:
    return Round(sample.condition, sample.category, sample.prompt, sample.turn, sample.repeat)


def _figures(
    condition: str,
    category: str | None,
    side: str,
    samples: Sequence[Sample],
    alone: Mapping[Round, str],
) -> Figures:
    rates = [s.tokens_per_s for s in samples if s.tokens_per_s is not None]
    timed = [s.own for s in samples if s.own.overhead_s is not None]
    energies = [s.energy_j for s in samples if s.energy_j is not None]
    same = [s.digest == alone[_round(s)] for s in samples if _round(s) in alone and side != ALONE]
    after_first = sum(max(0, s.completion_tokens - 1) for s in samples)
    return Figures(
        condition=condition,
        category=category,
        side=side,
        answers=len(samples),
        tokens_per_s=spread(rates) if rates else None,
        ttft_s=spread([s.ttft_s for s in samples]),
        completion_tokens=spread([s.completion_tokens for s in samples]),
        acceptance_rate=_ratio(sum(s.accepted for s in samples), sum(s.drafted for s in samples)),
        tokens_per_pass=_ratio(after_first, sum(s.target_passes for s in samples)),
        overhead=_ratio(
            sum(own.overhead_s or 0.0 for own in timed), sum(own.decode_s or 0.0 for own in timed)
        ),
        joules_per_token=(
            _ratio(sum(energies), sum(s.completion_tokens for s in samples)) if energies else None
        ),
        same_text=_ratio(sum(same), len(same)),
    )


def _compared(
    condition: str,
    side: str,
    over: str,
    rates: Mapping[Round, Mapping[str, float]],
    bound: float,
) -> list[Comparison]:
    """A row for each category in which both sides have answered."""
    by_prompt: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for key, rate in rates.items():
        if key.condition == condition and side in rate and over in rate:
            by_prompt[key.category, key.prompt, key.turn].append(rate[side] / rate[over])
    categories: dict[str, list[Worst]] = defaultdict(list)
    for (category, prompt, turn), ratios in by_prompt.items():
        median = statistics.median(ratios)
        categories[category].append(Worst(prompt=prompt, turn=turn, ratio=median))
    rows = []
    for category, prompts in categories.items():
        ratio = spread([prompt.ratio for prompt in prompts])
        rows.append(
            Comparison(
                condition=condition,
                category=category,
                side=side,
                over=over,
                prompts=len(prompts),
                ratio=ratio,
                worst=min(prompts, key=lambda prompt: prompt.ratio),
                of_bound=ratio.median / bound if over == ALONE else None,
            )
        )
    return rows


def _mean(rows: Sequence[Comparison], bound: float) -> Comparison:
    """The geometric mean of the categories; low and high are the extreme categories."""
    medians = [row.ratio.median for row in rows]
    mean = math.exp(statistics.fmean(math.log(median) for median in medians))
    return rows[0].model_copy(
        update={
            "category": None,
            "prompts": sum(row.prompts for row in rows),
            "ratio": Spread(median=mean, low=min(medians), high=max(medians)),
            "worst": min((row.worst for row in rows), key=lambda worst: worst.ratio),
            "of_bound": None if rows[0].of_bound is None else mean / bound,
        }
    )


def _ratio(a: float, b: float) -> float | None:
    return a / b if b else None
