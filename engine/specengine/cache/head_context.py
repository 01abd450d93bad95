"""The cache of a head follows the text, and so do the hidden states of the target that it reads.

A head is a decoder layer trained to go on where the target's layers end (EAGLE-3, Li et al. 2025;
multi-token prediction, DeepSeek-AI 2024). Its row P stands for token P + 1 and the target's hidden
state at token P, and gives the logits of token P + 2. Beyond the text there are no hidden states of
the target: a row of the draft takes the head's own of the row before it. Such rows are evaluated
anew once their tokens stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from specengine.cache.context import Context, Logits
from specengine.cache.costs import WIDEST, PassCosts
from specengine.cache.feature_context import FeatureContext, FeatureHead
from specengine.cache.features import Features
from specengine.core.errors import BackendError
from specengine.core.tokens import Tokens, common_prefix

_CALIBRATED = (1, 5, 2, 9)


class Head(FeatureHead, Protocol):
    """One head with its KV cache, at the level of llama.cpp's calls."""

    @property
    def n_vocab(self) -> int: ...

    def fuse(self, features: Features) -> Features:
        """A hidden state for each row of the target's features, shape (n, n_embd)."""
        ...

    def decode(
        self, tokens: Tokens, hidden: Features, pos: int, *, drafted: int, last: bool
    ) -> tuple[Logits, Features] | None:
        """Evaluate rows at positions `pos`…: a token and a hidden state (n, n_embd) each.

        They are those of the text where `drafted` is 0, else the one of that draft token, counted
        from 1. With `last` the logits (n_vocab,) of the last row, a view that is valid until the
        next call, and its hidden state (1, n_embd). Raises CancelledError, BackendError.
        """
        ...


class HeadContext(FeatureContext[Head]):
    """Logits of a head after any text whose features a target holds.

    Its `tokens` are one more than there are rows; `costs` are those of rows.
    """

    def __init__(self, head: Head, target: Context, costs: PassCosts | None = None) -> None:
        super().__init__(head, target, costs)
        self._verified = 0  # rows from the target's hidden states; those after them are drafted
        self._hidden: Features | None = None  # of the last row

    @property
    def n_vocab(self) -> int:
        return self._head.n_vocab

    def missing(self, text: Tokens) -> int | None:
        """Rows to be evaluated before the first draft token after `text`, at least 1.

        None where the text has no row yet, or the target does not hold its features.
        """
        rows = len(text) - 1
        if rows < 1 or common_prefix(self._target.tokens, text[:rows]) < rows:
            return None
        return rows - self._kept(text, rows)

    def logits(self, tokens: Tokens, drafted: int = 0) -> Logits:
        """Logits of what follows `tokens`, of which the last `drafted` are a draft: (n_vocab,).

        A view, valid until the next call. Raises BackendError where the target does not hold the
        features of the others, CancelledError or BackendError where a pass did not finish: the
        cache is valid even then.
        """
        verified = len(tokens) - 1 - drafted
        missing = self.missing(tokens[: len(tokens) - drafted])
        if missing is None:
            raise BackendError("the target's cache lacks hidden states that the head needs")
        if drafted and self._goes_on(tokens, verified):
            return self._step(tokens)
        self._drop_after(verified - missing)
        row = self._catch_up(tokens, verified)
        for end in range(verified + 2, len(tokens) + 1):
            row = self._step(tokens[:end])
        return row

    @property
    def _calibrated(self) -> Sequence[int]:
        return _CALIBRATED

    @property
    def _longest_measured(self) -> int:
        return 1

    def _make_up(self, start: int, n: int) -> None:
        hidden = self._head.fuse(np.ones((n, self._head.width), dtype=np.float32))
        self._head.decode(np.zeros(n, dtype=np.int32), hidden, start, drafted=0, last=True)

    def _kept(self, tokens: Tokens, verified: int) -> int:
        """Of the first `verified` rows of `tokens` those that stay; the last one is asked for."""
        common = common_prefix(self._held.view(), tokens) - 1
        return max(0, min(common, self._verified, verified - 1))

    def _goes_on(self, tokens: Tokens, verified: int) -> bool:
        """Whether the cache holds all of `tokens` but the last."""
        held = self._held.view()
        return (
            self._hidden is not None
            and self._verified == verified
            and len(held) == len(tokens) - 1
            and common_prefix(held, tokens) == len(held)
        )

    def _catch_up(self, tokens: Tokens, verified: int) -> Logits:
        """Evaluate the rows up to `verified` from the target's hidden states."""
        before, start = self.decode_s, self._verified
        row: Logits | None = None
        for begin in range(start, verified, self._head.n_batch):
            end = min(begin + self._head.n_batch, verified)
            hidden = self._head.fuse(self._target.features[begin:end])
            row = self._decode(tokens[: end + 1], hidden, begin, 0, last=end == verified)
            self._verified = end
        self._learn(verified - start, self.decode_s - before)
        assert row is not None
        return row

    def _step(self, tokens: Tokens) -> Logits:
        """Evaluate the row of the last token, from the head's own hidden state before it."""
        assert self._hidden is not None
        before, start = self.decode_s, len(tokens) - 2
        row = self._decode(tokens, self._hidden, start, start + 1 - self._verified, last=True)
        assert row is not None
        self._learn(1, self.decode_s - before)
        return row

    def _decode(
        self, tokens: Tokens, hidden: Features, start: int, drafted: int, *, last: bool
    ) -> Logits | None:
        """Evaluate the rows of `tokens` from `start` on."""
        try:
            result = self._head.decode(
                tokens[start + 1 :], hidden, start, drafted=drafted, last=last
            )
        except BaseException:
            self._drop_after(self._verified)
            raise
        self._held.extend(tokens[len(self._held) :])
        row, self._hidden = result if result is not None else (None, None)
        return row

    def _drop_after(self, rows: int) -> None:
        self._head.truncate(rows)
        self._held.truncate(min(len(self._held), rows + 1 if rows else 0))
        self._verified = min(self._verified, rows)
        self._hidden = None

    def _learn(self, rows: int, seconds: float) -> None:
        if rows <= WIDEST:
            self.costs.observe(rows, seconds)
        else:
            self.costs.observe_prompt(rows, seconds)
