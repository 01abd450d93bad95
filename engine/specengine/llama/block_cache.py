"""llama.cpp's context of a block head: the real `specengine.cache.block_context.BlockHead`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specengine.cache.block_context import Rows
from specengine.cache.context import Logits
from specengine.cache.features import Features
from specengine.files.block_heads import BlockShape
from specengine.llama import extensions
from specengine.llama.head_cache import CompanionCache
from specengine.llama.model import LlamaModel

_LONGEST = 32  # draft tokens, whatever the file says: a block has to fit into a batch


class BlockCache(CompanionCache):
    """DFlash (Chen et al. 2026) and its kin: blocks with a Markov head (DSpark), and blocks whose
    candidates are chosen along a path (DFlash 2).
    """

    def __init__(
        self, model: LlamaModel, target: Any, shape: BlockShape, *, width: int, **settings: Any
    ) -> None:
        """`width`: that of the features. The header has passed `files.head_files.check_head`."""
        super().__init__(model, target, **settings)
        self.width = width
        self._shape = shape
        self._llama.llama_set_causal_attn(self.handle, shape.causal)
        if shape.n_candidates:
            extensions.function("llama_set_embeddings_nextn")(self.handle, True, False)

    @property
    def longest(self) -> int:
        return min(self._shape.longest, _LONGEST)

    def inject(self, features: Features, pos: int) -> None:
        self._call(self._llama.llama_decode, None, features, pos, output=False)

    def block(self, last: int, pos: int, k: int) -> Rows:
        shape = self._shape
        tokens = np.full(k if shape.anchored else k + 1, shape.mask, dtype=np.int32)
        tokens[0] = last
        has_logits = not shape.n_candidates
        address = self._call(self._llama.llama_decode, tokens, None, pos, output=has_logits)
        if not has_logits:
            return _Lattice(self._hidden(k + 1)[1:], shape.n_candidates, self.n_vocab)
        return _Independent(self._rows(address, len(tokens))[-k:])


@dataclass(frozen=True, slots=True)
class _Independent:
    """Rows that know nothing of the draft tokens before them; shape (k, n_vocab)."""

    logits: Logits

    def row(self, drafted: Sequence[int]) -> Logits:
        row: Logits = self.logits[len(drafted)]
        return row


class _Lattice:
    """A few candidates for each draft token, and how well each follows each of those before it."""

    def __init__(self, rows: Features, n: int, n_vocab: int) -> None:
        """`rows` (k, n_embd) hold n candidate ids, then n scores after each candidate before."""
        self._candidates: NDArray[np.int32] = rows[:, :n].astype(np.int32)
        self._scores = rows[:, n : n + n * n].reshape(len(rows), n, n).copy()
        self._row = np.empty(n_vocab, dtype=np.float32)

    def row(self, drafted: Sequence[int]) -> Logits:
        i, before = len(drafted), 0
        if drafted:  # the first draft token's scores are the same after every candidate
            before = int((self._candidates[i - 1] == drafted[-1]).argmax())
        self._row[:] = -np.inf
        self._row[self._candidates[i]] = self._scores[i, before]
        return self._row
