"""What the scheduler asks of a KV cache that holds several sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from specengine.cache.context import Logits
from specengine.core.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Part:
    """One sequence's share of a pass: `tokens` at positions `pos`…; `tokens[rows]` ask for logits.

    `rows` has a start and a stop and may be empty.
    """

    sequence: int
    tokens: Tokens
    pos: int
    rows: slice


def padded_part(sequence: int, tokens: Tokens, pos: int, step: int, *, n_rows: int) -> Part:
    """`tokens` padded to a multiple of `step`, with rows for the last `n_rows` of them."""
    n = len(tokens)
    padding = np.repeat(tokens[-1:], -n % step)
    return Part(sequence, np.concatenate((tokens, padding)), pos, slice(n - n_rows, n))


class BatchCache(Protocol):
    """One model with `n_sequences` sequences, each in cells of its own.

    Where all parts of all passes are multiples of `step`, a row of logits depends on nothing but
    its own sequence: not on what else is in a pass, nor on where in the cache it lies.
    """

    n_sequences: int
    n_ctx: int
    """Tokens that each sequence may hold."""
    n_vocab: int
    n_batch: int
    """Tokens that one `decode` may take."""
    max_rows: int
    """Rows of logits that one `decode` may return."""
    step: int
    decode_s: float
    """Seconds spent inside decode and synchronize calls so far."""

    def decode(self, parts: Sequence[Part]) -> list[Logits]:
        """Evaluate all parts in one pass; for each its rows, shape (n_rows, n_vocab).

        The results are views, valid until the next call. Raises CancelledError where the pass was
        aborted, BackendError where it failed: then the sequences in it hold nobody knows what.
        """
        ...

    def truncate(self, sequence: int, length: int) -> None:
        """Drop everything of `sequence` from position `length` on."""
        ...
