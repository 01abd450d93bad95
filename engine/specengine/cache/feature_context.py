"""What the contexts of all heads have in common: a cache that follows a text whose features a
target holds.
"""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from specengine.cache.calibrate import measure_widths
from specengine.cache.context import Context
from specengine.cache.costs import PassCosts
from specengine.core.tokens import TokenBuffer, Tokens


class FeatureHead(Protocol):
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
    def longest(self) -> int | None:
        """Draft tokens that it gives at most; None where there is no end."""
        ...

    decode_s: float
    """Seconds spent inside llama.cpp's calls so far."""

    def truncate(self, length: int) -> None:
        """Drop everything from position `length` on."""
        ...


H = TypeVar("H", bound=FeatureHead)


class FeatureContext(ABC, Generic[H]):
    """Whatever of the text the cache of a head holds, and what its passes cost."""

    def __init__(self, head: H, target: Context, costs: PassCosts | None = None) -> None:
        """`target` records what the head reads. `costs` learns what its passes cost."""
        self._head = head
        self._target = target
        self.costs = costs or PassCosts()
        self._held = TokenBuffer()

    @property
    def n_ctx(self) -> int:
        return self._head.n_ctx

    @property
    def longest(self) -> int | None:
        """Draft tokens that the head gives at most; None where there is no end."""
        return self._head.longest

    @property
    def decode_s(self) -> float:
        return self._head.decode_s

    @property
    def tokens(self) -> Tokens:
        """The tokens that the cache stands for."""
        return self._held.view()

    @property
    def is_calibrated(self) -> bool:
        """Whether enough is known of what its passes cost to judge drafts by."""
        return self.costs.knows(self._calibrated)

    def calibrate(self) -> None:
        """Measure what passes cost, into `costs`. Empties the cache; raises CancelledError."""
        measure_widths(self.costs, self._calibrated, lambda n: self._seconds(0, n))

    def measure_passes(self, *, prefix: int, repeats: int) -> dict[int, float]:
        """Median seconds of what drafts are made of, by its length: of a single row, or of a whole
        draft. Each comes after `prefix` tokens. Empties the cache; raises CancelledError.
        """
        longest = self._longest_measured
        prefix = min(prefix, self.n_ctx - longest)
        return {
            n: statistics.median(self._seconds(prefix, n) for _ in range(repeats))
            for n in range(1, longest + 1)
        }

    @property
    @abstractmethod
    def _longest_measured(self) -> int:
        """Tokens of the longest pass of a draft."""

    @property
    @abstractmethod
    def _calibrated(self) -> Sequence[int]:
        """Lengths of the passes, in tokens, that are measured; enough to tell all others by."""

    def forget(self) -> None:
        """Empty the cache."""
        self._drop_after(0)

    def _seconds(self, prefix: int, n: int) -> float:
        """Seconds of a pass over `n` tokens after `prefix` others, all made up. Empties the cache;
        raises CancelledError.
        """
        self.forget()
        try:
            for start in range(0, prefix, self._head.n_batch):
                self._make_up(start, min(self._head.n_batch, prefix - start))
            before = self.decode_s
            self._make_up_pass(prefix, n)
            return self.decode_s - before
        finally:
            self.forget()

    def _make_up_pass(self, start: int, n: int) -> None:
        """Run the pass that `_seconds` measures: `n` made-up tokens from position `start` on."""
        self._make_up(start, n)

    @abstractmethod
    def _make_up(self, start: int, n: int) -> None:
        """Evaluate `n` tokens that nobody has said, from position `start` on."""

    @abstractmethod
    def _drop_after(self, length: int) -> None:
        """Drop everything from position `length` on."""
