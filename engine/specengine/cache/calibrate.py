"""Measures passes: briefly at first use (`PassCosts` keeps that up to date), or with care."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from specengine.cache.context import Context
from specengine.cache.costs import PROMPT, PassCosts
from specengine.cache.measurement import Measurement, OtherProcesses, drift_of, spread_of
from specengine.core.errors import CancelledError
from specengine.core.tokens import Tokens

# In the order of what they tell; measured until the time is up.
_WIDTHS = (1, 5, 2, 9, 3, 17, 4, 6, 8, 12, 7, 13)
_ESSENTIAL = (1, 5)  # measured whatever it takes: without both nothing is known of drafting
_ROUNDS = 3  # at most, where other processes slow the passes
_PREFIX = 16  # tokens before the measured ones
_TEXT = 2 * PROMPT  # read to see what reading costs; the shorter the dearer each token


def calibrate(context: Context, *, budget_s: float = 2.0) -> None:
    """Measure passes of several widths for about `budget_s` seconds, into `context.costs`; up to
    three times as long while the machine is busy.

    Empties the cache. Raises CancelledError where the context is aborted: nothing was measured.
    """
    widest = _widest(context, _PREFIX)
    if widest < 1:
        return
    tokens = np.arange(_PREFIX + max(widest, _TEXT), dtype=np.int32) % context.n_vocab
    reads = PROMPT in _essential(context)
    costs = context.costs

    def seconds(width: int) -> float:
        return _pass_seconds(context, tokens[: _PREFIX + width], width)

    with padded_to(context, 1), _forgotten_if_cancelled(costs, (*_WIDTHS, PROMPT)):
        for _ in range(2 if reads else 0):
            context.forget()
            costs.forget(PROMPT)  # as `_learn`
            context.logits(tokens[:_TEXT])
        context.logits(tokens[:_PREFIX])
        with learning_nothing(context):
            costs.measured_in = _measure(costs, widest, seconds, budget_s)


def _measure(
    costs: PassCosts, widest: int, seconds: Callable[[int], float], budget_s: float
) -> Measurement:
    """Let `costs` learn the quickest of several passes of each width: once more, for as long, where
    the machine was busy, and then what it is.
    """
    passes: dict[int, list[float]] = {}
    for _ in range(_ROUNDS):
        started, others = time.perf_counter(), OtherProcesses()
        for width in _WIDTHS:
            late = time.perf_counter() - started > budget_s
            if width > widest or (late and width not in _ESSENTIAL):
                continue
            if width not in passes:
                seconds(width)  # the first pass of a width also builds its graph
            passes.setdefault(width, []).extend((seconds(width), seconds(width)))
        before, after = passes[1][-2:], (seconds(1), seconds(1))
        timed = sum(map(len, passes.values()))
        measured = Measurement(
            time.time(), timed, spread_of(passes), drift_of(before, after), others.load()
        )
        if not measured.is_noisy:
            break
    for width, found in passes.items():
        costs.forget(width)
        costs.observe(width, min(found))
    return measured


def is_calibrated(context: Context) -> bool:
    """Whether enough is known of its passes to judge drafts by. What passes without drafts have
    taught is not: widths that were never tried would be guesses, and guesses too high stay.
    """
    return context.costs.knows(_essential(context))


def _essential(context: Context) -> Sequence[int]:
    """The widths without which nothing is known: of verifying drafts, or, where a pass gives a
    single row of logits, of making them, which begins with reading the text.
    """
    widest = _widest(context, _PREFIX)
    if context.max_rows > 1:
        return [width for width in _ESSENTIAL if width <= widest]
    return [1, PROMPT] if context.n_ctx > _TEXT else [1]


def measure_widths(
    costs: PassCosts, widths: Sequence[int], seconds: Callable[[int], float]
) -> None:
    """Let `costs` learn what `seconds(width)` measures for each of `widths`.

    Where that raises CancelledError nothing was measured.
    """
    with _forgotten_if_cancelled(costs, widths):
        for width in widths:
            _learn(costs, width, seconds)


def _learn(costs: PassCosts, width: int, seconds: Callable[[int], float]) -> None:
    """Let `costs` learn the shorter of two passes: another process may take its time from one."""
    seconds(width)  # the first pass of a width also builds its graph
    shorter = min(seconds(width), seconds(width))
    costs.forget(width)
    costs.observe(width, shorter)


def _pass_seconds(context: Context, sequence: Tokens, width: int) -> float:
    """What a pass over the last `width` tokens of `sequence` takes, with a row for each."""
    before = context.decode_s
    context.logits(sequence, last=width)
    return context.decode_s - before


def _widest(context: Context, prefix: int) -> int:
    """Tokens of the widest pass with a row for each after `prefix` tokens; below 1 for none."""
    return min(context.max_rows, context.n_ctx - prefix)


@contextmanager
def padded_to(context: Context, step: int) -> Iterator[None]:
    """Passes are padded to a multiple of `step`, whatever answers pad them to. The cache is left
    empty: passes of other widths may have filled it with other bits.
    """
    before, context.width_step = context.width_step, step
    try:
        yield
    finally:
        context.width_step = before
        context.forget()


@contextmanager
def learning_nothing(context: Context) -> Iterator[None]:
    """Passes teach `context.costs` nothing."""
    costs, context.costs = context.costs, PassCosts()
    try:
        yield
    finally:
        context.costs = costs


@contextmanager
def _forgotten_if_cancelled(costs: PassCosts, widths: Sequence[int]) -> Iterator[None]:
    """A few widths are no measure of the others."""
    try:
        yield
    except CancelledError:
        for width in widths:
            costs.forget(width)
        raise


def measure_passes(context: Context, *, prefix: int, repeats: int) -> dict[int, float]:
    """Median seconds of a pass by its width, from 1 to the most rows that one pass may return.

    Each pass comes after `prefix` tokens; the widths take turns, so that a machine that slows
    down slows all of them. `context.costs` learns nothing of it. Empties the cache. Raises
    CancelledError where the context is aborted.
    """
    widest = _widest(context, prefix)
    tokens = np.arange(prefix + max(widest, 0), dtype=np.int32) % context.n_vocab
    seconds: dict[int, list[float]] = {width: [] for width in range(1, widest + 1)}
    with learning_nothing(context), padded_to(context, 1):
        if prefix:
            context.logits(tokens[:prefix])
        for _ in range(repeats):
            for width, measured in seconds.items():
                sequence = tokens[: prefix + width]
                context.logits(sequence, last=width)  # builds the graph of this width
                measured.append(_pass_seconds(context, sequence, width))
    return {width: statistics.median(measured) for width, measured in seconds.items()}
