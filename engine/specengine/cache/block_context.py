"""The cache of a block drafter follows the text, and so do the hidden states that it holds.

Such a head (DFlash, Chen et al. 2026) keeps no tokens of the text: the target's hidden states at
each of them are projected into its cache. A block of the last token and mask tokens after it then
looks at all of that and at itself, and gives the rows of all draft tokens in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from specengine.cache.context import Logits
from specengine.cache.costs import WIDEST
from specengine.cache.feature_context import FeatureContext, FeatureHead
from specengine.cache.features import Features
from specengine.core.errors import BackendError
from specengine.core.tokens import Tokens, common_prefix

_CALIBRATED = (2, 5, 9, 17)


class Rows(Protocol):
    """Logits of the tokens of a draft, one after the other."""

    def row(self, drafted: Sequence[int]) -> Logits:
        """What follows the draft tokens `drafted`, shape (n_vocab,). Valid until the next pass."""
        ...


class BlockHead(FeatureHead, Protocol):
    """One head with its cache, at the level of llama.cpp's calls."""

    @property
    def longest(self) -> int:
        """Draft tokens that a block gives at most."""
        ...

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


class BlockContext(FeatureContext[BlockHead]):
    """Drafts of a block head after any text whose features a target holds.

    Its `tokens` are those that the cache holds for good: beyond them there may be a block, or what
    a failed pass left. `costs` are those of k draft tokens.
    """

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
            raise BackendError("the target's cache lacks hidden states that the head needs")
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

    @property
    def _calibrated(self) -> Sequence[int]:
        return sorted({min(k, self._head.longest) for k in _CALIBRATED})

    @property
    def _longest_measured(self) -> int:
        return self._head.longest

    def _make_up(self, start: int, n: int) -> None:
        self._head.inject(np.ones((n, self._head.width), dtype=np.float32), start)

    def _make_up_pass(self, start: int, n: int) -> None:
        """A draft of `n` tokens, after as many that just came."""
        self._make_up(start, n)
        self._head.block(0, start + n, n)

    def _inject(self, text: Tokens, end: int) -> None:
        while (start := len(self._held)) < end:
            stop = min(start + self._head.n_batch, end)
            self._head.inject(self._target.features[start:stop], start)
            self._held.extend(text[start:stop])

    def _drop_after(self, length: int) -> None:
        self._head.truncate(length)
        self._held.truncate(min(length, len(self._held)))
