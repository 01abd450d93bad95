"""Whether a session's logits depend on who else is in a pass, measured on the real cache.

llama.cpp evaluates the parts of a pass together as far as they are equally long, and the rest of
the longer ones apart. So the width of the kernels' work, on which the last bits of a row depend
(see `specengine.cache.widths`), depends on the neighbours. Where every part is a multiple of so
many tokens that no kernel has a remainder, it does not matter. How many that are depends on the
build, the CPU and the quantizations of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np

from specengine.cache.context import Logits
from specengine.cache.costs import PassCosts
from specengine.cache.widths import LONG_TEXT, smallest_step
from specengine.core.tokens import Tokens
from specengine.serve.allocation import padded
from specengine.serve.batch_cache import BatchCache, padded_part

_ROWS = 8  # that are compared
_TEXT = 32  # tokens of the text that is tried
_NEIGHBOURS = (1, 2, 5, 0)  # tokens of others in one pass after the other
_WIDEST = 16  # for which costs are measured


def measure_part_step(cache: BatchCache) -> int | None:
    """The smallest of `STEPS` to whose multiples all parts must be padded for a row to have the
    same bits whatever else is in its pass; None where none does it.

    Takes 26 narrow passes for each step that is tried, fewer where it fails, and as many over a
    longer text where 1 seems to be one. Leaves the cache empty. Raises what `BatchCache.decode`
    raises.
    """
    rng = np.random.default_rng(0)
    text, other = rng.integers(0, cache.n_vocab, (2, min(LONG_TEXT, cache.n_ctx))).astype(np.int32)
    trial, long_trial = _Trial(cache, text[:_TEXT], other), _Trial(cache, text, other)
    return smallest_step(trial.is_stable, long_trial.is_stable)


def measure_costs(cache: BatchCache, costs: PassCosts, step: int) -> None:
    """Let `costs` learn what passes of one session cost. Leaves the cache empty."""
    start = padded(_TEXT - _ROWS, step)
    tokens = np.arange(start + _WIDEST, dtype=np.int32) % cache.n_vocab
    cache.decode([padded_part(0, tokens[:start], 0, step, n_rows=0)])
    for width in (w for w in (1, 2, 4, 8, 16) if w % step == 0):
        for is_warm in (False, True):  # the first pass of a width also builds its graph
            before = cache.decode_s
            cache.decode([padded_part(0, tokens[:width], start, step, n_rows=width)])
            if is_warm:
                costs.observe(width, cache.decode_s - before)
            cache.truncate(0, start)
    cache.truncate(0, 0)


class _Trial:
    """One text as sequence 0, with others around it."""

    def __init__(self, cache: BatchCache, text: Tokens, other: Tokens) -> None:
        self._cache, self._text, self._other = cache, text, other
        self._others = range(1, min(cache.n_sequences, 3))
        self._prompt = len(text) - _ROWS

    def is_stable(self, step: int) -> bool:
        half, third = self._prompt // 2, self._prompt // 3 + 1
        expected, *alone = self._rows(step, half, (_ROWS, 1), alone=True)
        return all(np.array_equal(expected, rows) for rows in alone) and all(
            np.array_equal(expected, rows) for rows in self._rows(step, third, (3, 1), alone=False)
        )

    def _rows(self, step: int, cut: int, widths: Sequence[int], *, alone: bool) -> list[Logits]:
        """Logits of what follows the prompt, for each of `widths` from passes over so many tokens
        of it; the prompt in passes over `cut` tokens.
        """
        self._forget()
        self._neighbour = 0
        beside = cycle([0] if alone else _NEIGHBOURS)
        for start in range(0, self._prompt, cut):
            self._pass(step, start, min(start + cut, self._prompt), next(beside), n_rows=0)
        end = len(self._text)
        found = []
        for width in widths:
            self._cache.truncate(0, self._prompt)
            rows = [
                self._pass(step, start, min(start + width, end), next(beside), n_rows=width)
                for start in range(self._prompt, end, width)
            ]
            found.append(np.concatenate(rows))
        self._forget()
        return found

    def _pass(self, step: int, start: int, end: int, neighbours: int, *, n_rows: int) -> Logits:
        n = min(neighbours, len(self._other) - self._neighbour)
        begin, self._neighbour = self._neighbour, self._neighbour + n
        parts = [
            padded_part(s, self._other[begin : begin + n], begin, step, n_rows=min(n, 1))
            for s in self._others
            if n
        ]
        own = padded_part(0, self._text[start:end], start, step, n_rows=min(n_rows, end - start))
        rows = self._cache.decode([*parts, own])[-1].copy()
        self._cache.truncate(0, end)
        for sequence in self._others:
            self._cache.truncate(sequence, self._neighbour)
        return rows

    def _forget(self) -> None:
        for sequence in (0, *self._others):
            self._cache.truncate(sequence, 0)
