"""The cache of a block drafter follows the text, and so do the hidden states that it holds.

Such a head (DFlash, Chen et al. 2026) keeps no tokens of the text: the target's hidden states at
each of them are projected into its cache. A block of the last token and mask tokens after it then
looks at all of that and at itself, and gives the rows of all draft tokens in one pass.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from specengine.calibrate import measure_widths
from specengine.context import Context, Logits
from specengine.costs import WIDEST, PassCosts
from specengine.errors import BackendError
from specengine.features import Features
from specengine.sequence import TokenBuffer, Tokens, common_prefix

_CALIBRATED = (2, 5, 9, 17)


class Rows(Protocol):
    """Logits of the tokens of a draft, one after the other."""

    def row(self, drafted: Sequence[int]) -> Logits:
        """What follows the draft tokens `drafted`, shape (n_vocab,). Valid until the next pass."""
        ...


class BlockHead(Protocol):
    """One head with its cache, at the level of llama.cpp's calls."""

    @property
    def n_ctx(self) -> int: ...

    @property
    def n_batch(self) -> int:
        """Tokens whose features one call may take."""
        ...

    @property
    def width(self) -> int:
        """Of the target's features, in floats."""
        ...

    @property
    def longest(self) -> int:
        """Draft tokens that a block gives at most."""
        ...

    decode_s: float
    """Seconds spent inside llama.cpp's calls so far."""

    def inject(self, features: Features, pos: int) -> None:
        """Put the features of the tokens at `pos`… into the cache. Raises CancelledError,
        BackendError.
        """
        ...

    def block(self, last: int, pos: int, k: int) -> Rows:
        """A draft of `k` tokens after the token `last`, which stands at `pos`. The block stays in
        the cache. Raises CancelledError, BackendError.
        """
        ...

    def truncate(self, length: int) -> None:
        """Drop everything from position `length` on."""
        ...


class BlockContext:
    """Drafts of a block head after any text whose features a target holds."""

    def __init__(self, head: BlockHead, target: Context, costs: PassCosts | None = None) -> None:
        """`target` records what the head reads. `costs` learns what k draft tokens cost."""
        self._head = head
        self._target = target
        self.costs = costs or PassCosts()
        # What the cache holds for good; beyond it there may be a block, or a part of a failed pass.
        self._held = TokenBuffer()

    @property
    def n_ctx(self) -> int:
        return self._head.n_ctx

    @property
    def longest(self) -> int:
        return self._head.longest

    @property
    def decode_s(self) -> float:
        return self._head.decode_s

    @property
    def tokens(self) -> Tokens:
        """The tokens whose features the cache holds."""
        return self._held.view()

    def missing(self, text: Tokens) -> int | None:
        """Tokens of `text` but its last whose features are to be injected before it can go on.

        None where the target does not hold them.
        """
        n = len(text) - 1
        if common_prefix(self._target.tokens, text[:n]) < n:
            return None
        return n - common_prefix(self._held.view(), text[:n])

    def start_seconds(self, text: Tokens) -> float | None:
        """What a draft after `text` costs before its block, where that is more than the ordinary.

        None where the target does not hold the features of the text.
        """
        missing = self.missing(text)
        if missing is None:
            return None
        return self.costs.prompt_seconds(missing) if missing > WIDEST else 0.0

    def draft(self, text: Tokens, k: int) -> Rows:
        """Rows of `k` draft tokens after `text`, valid until the next call.

        Raises BackendError where the target does not hold the features of the text, CancelledError
        or BackendError where a pass did not finish: the next draft is right even then.
        """
        missing = self.missing(text)
        if missing is None:
            raise BackendError("the target does not hold what the head reads of it")
        n = len(text) - 1
        self._drop_after(n - missing)
        started = self.decode_s
        self._inject(text, n)
        if missing > WIDEST:
            self.costs.observe_prompt(missing, self.decode_s - started)
            started = self.decode_s
        rows = self._head.block(int(text[n]), n, k)
        self.costs.observe(k, self.decode_s - started)
        return rows

    def calibrate(self) -> None:
        """Measure what drafts cost, into `costs`. Empties the cache; raises CancelledError."""
        lengths = sorted({min(k, self.longest) for k in _CALIBRATED})
        measure_widths(self.costs, lengths, lambda k: self._seconds(0, k))

    def measure(self, *, prefix: int, repeats: int) -> dict[int, float]:
        """Median seconds of a draft after `prefix` tokens, by its length. Empties the cache; raises
        CancelledError.
        """
        prefix = min(prefix, self.n_ctx - self.longest)
        return {
            k: statistics.median(self._seconds(prefix, k) for _ in range(repeats))
            for k in range(1, self.longest + 1)
        }

    def _seconds(self, prefix: int, k: int) -> float:
        """What a draft of `k` tokens takes after `prefix` made-up ones, and k that just came."""
        self.forget()
        try:
            for start in range(0, prefix, self._head.n_batch):
                self._make_up(start, min(self._head.n_batch, prefix - start))
            before = self.decode_s
            self._make_up(prefix, k)
            self._head.block(0, prefix + k, k)
            return self.decode_s - before
        finally:
            self.forget()

    def _make_up(self, start: int, n: int) -> None:
        self._head.inject(np.ones((n, self._head.width), dtype=np.float32), start)

    def forget(self) -> None:
        """Empty the cache."""
        self._drop_after(0)

    def _inject(self, text: Tokens, end: int) -> None:
        while (start := len(self._held)) < end:
            stop = min(start + self._head.n_batch, end)
            self._head.inject(self._target.features[start:stop], start)
            self._held.extend(text[start:stop])

    def _drop_after(self, length: int) -> None:
        self._head.truncate(length)
        self._held.truncate(min(length, len(self._held)))
