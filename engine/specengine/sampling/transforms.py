"""Logits to a `Distribution`: the same transforms for the target's p and a drafter's q.

The order is that of llama.cpp's default sampler chain (common/sampling.cpp): logit bias,
penalties, grammar, top-k, typical-p, top-p, min-p, temperature. The result is a pure function of
the logits and of the tokens before them, so rejected draft tokens leave no trace.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from specengine.core.distribution import Distribution
from specengine.core.errors import NothingToDrawError, SamplingError
from specengine.sampling.grammar import Grammar
from specengine.sampling.params import SamplingParams
from specengine.sampling.penalties import penalise
from specengine.sampling.truncation import min_p, softmax, top_k, top_p, typical_p

_FAR = 12.0  # in logits: e^-12 is 6e-6


class Transforms:
    """The chain that `params` describe, with an optional grammar that the answer has to follow."""

    def __init__(self, params: SamplingParams, grammar: Grammar | None = None) -> None:
        self._params = params
        self._grammar = grammar
        self._bias_ids = np.array(list(params.logit_bias), dtype=np.int32)
        self._bias = np.array(list(params.logit_bias.values()), dtype=np.float32)
        self._penalising = params.repeat_last_n > 0 and (
            params.repeat_penalty != 1
            or params.frequency_penalty != 0
            or params.presence_penalty != 0
        )
        self._is_greedy = params.temperature == 0 or params.top_k == 1

    def distribution(self, logits: NDArray[np.float32], history: NDArray[np.int32]) -> Distribution:
        """The distribution of the token after `history`.

        `logits` (n_vocab,) is never changed. `history` holds all tokens before: prompt, committed
        and earlier draft tokens. Raises NothingToDrawError, or SamplingError for broken logits.
        """
        return self._weighed(logits, history)[0]

    def with_confidence(
        self, logits: NDArray[np.float32], history: NDArray[np.int32]
    ) -> tuple[Distribution, float]:
        """As `distribution`, and its highest probability. Of a greedy pick, which is certain
        however close the others come, it is the probability before truncation.

        What lies _FAR below the best is left out: it changes nothing worth the time.
        """
        q, candidates, best = self._weighed(logits, history)
        if len(q.ids) > 1:
            return q, float(q.probs.max())
        if not self._is_greedy:
            return q, 1.0
        near = candidates[candidates > best - _FAR]
        return q, 1 / float(np.exp(near - best).sum())

    def _weighed(
        self, logits: NDArray[np.float32], history: NDArray[np.int32]
    ) -> tuple[Distribution, NDArray[np.float32], float]:
        """The distribution; the logits of what may come before truncation; the highest of them."""
        params = self._params
        row = self._adjusted(logits, history)
        best = int(row.argmax())
        highest = row.item(best)
        if not math.isfinite(highest):  # argmax stops at a NaN; -inf masks everything
            raise self._nothing_finite(row, best)
        if params.temperature == 0 and params.typical_p == 1:
            # No other truncation drops the most probable token.
            return Distribution.point(best), row, highest
        ids = top_k(row, params.top_k).astype(np.int32) if params.top_k else _all_ids(len(row))
        q = self._truncated(ids, row if len(ids) == len(row) else row[ids])
        return q, row, highest

    def _adjusted(
        self, logits: NDArray[np.float32], history: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """The row after logit bias, penalties and grammar; a copy where they change anything."""
        if not (len(self._bias_ids) or self._penalising or self._grammar is not None):
            return logits
        row = logits.copy()
        if len(self._bias_ids):
            if self._bias_ids.max() >= len(row):
                raise SamplingError(
                    f"logit_bias names token {self._bias_ids.max()}, but the vocabulary's last "
                    f"token is {len(row) - 1}"
                )
            row[self._bias_ids] += self._bias
        if self._penalising:
            penalise(row, history, self._params)
        if self._grammar is not None:
            row[~self._grammar.allowed(history)] = -np.inf
        return row

    def _truncated(self, ids: NDArray[np.int32], logits: NDArray[np.float32]) -> Distribution:
        params = self._params
        for truncate, p, off in (
            (typical_p, params.typical_p, 1),
            (top_p, params.top_p, 1),
            (min_p, params.min_p, 0),
        ):
            if p != off:
                kept = truncate(logits, p)
                ids, logits = ids[kept], logits[kept]
        if params.temperature == 0:
            return Distribution.point(int(ids[logits.argmax()]))
        return Distribution(ids, softmax(logits, params.temperature))

    def _nothing_finite(self, row: NDArray[np.float32], best: int) -> SamplingError:
        if not np.isneginf(row[best]):
            return SamplingError(
                f"the logit of token {best} is {row[best]}: the model file is damaged, or computed "
                "wrongly"
            )
        if self._grammar is None:
            return NothingToDrawError("no token is left to draw: logit_bias masks every token")
        return NothingToDrawError(
            "the grammar allows none of this model's tokens"
            + (" that the logit bias leaves" if len(self._bias_ids) else "")
        )


@lru_cache(maxsize=4)
def _all_ids(n_vocab: int) -> NDArray[np.int32]:
    """One shared array, so that two untruncated distributions are seen to list the same ids."""
    ids = np.arange(n_vocab, dtype=np.int32)
    ids.flags.writeable = False
    return ids
