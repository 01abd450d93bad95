"""A batch cache over a scripted model, which fails loudly when misused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from specengine.cache.context import Logits
from specengine.serve.batch_cache import Part
from support.fakes import PADDING_CELLS, Model


class FakeBatchCache:
    """Logits come from what a sequence really holds: a wrong cache gives wrong text."""

    def __init__(
        self,
        model: Model,
        n_vocab: int,
        *,
        n_sequences: int = 2,
        n_ctx: int = 128,
        n_batch: int = 128,
        max_rows: int = 24,
        step: int = 2,
    ) -> None:
        self.n_sequences, self.n_ctx, self.n_vocab = n_sequences, n_ctx, n_vocab
        self.n_batch, self.max_rows = n_batch, max_rows
        self.step = step
        self.decode_s = 0.0
        self.held: list[list[int]] = [[] for _ in range(n_sequences)]
        self.passes: list[dict[int, int]] = []
        """For each pass, the number of tokens by sequence."""
        self.before_decode: Callable[[], None] = lambda: None
        """Called in the middle of each pass: raise here to break it."""
        self._model = model

    def decode(self, parts: Sequence[Part]) -> list[Logits]:
        assert parts, "an empty batch"
        assert len({part.sequence for part in parts}) == len(parts), "two parts of a sequence"
        assert sum(len(part.tokens) for part in parts) <= self.n_batch, "too many tokens kill"
        n_rows = sum(part.rows.stop - part.rows.start for part in parts)
        assert n_rows <= self.max_rows, "too many rows kill the process"
        self.passes.append({part.sequence: len(part.tokens) for part in parts})
        self.decode_s += 0.001
        result = []
        for part in parts:
            held, tokens = self.held[part.sequence], part.tokens.tolist()
            assert len(tokens) % self.step == 0, "what is left over is rounded differently"
            assert part.pos == len(held), f"a gap: position {part.pos}, holds {len(held)}"
            assert len(held) + len(tokens) <= self.n_ctx + PADDING_CELLS, "no free cell"
            assert all(0 <= t < self.n_vocab for t in tokens), "an id outside the vocabulary"
            held += tokens
            self.before_decode()
            wanted = range(part.rows.start, part.rows.stop)
            rows = [self._model(held[: part.pos + i + 1]) for i in wanted]
            result.append(np.stack(rows) if rows else np.empty((0, self.n_vocab), dtype=np.float32))
        return result

    def truncate(self, sequence: int, length: int) -> None:
        del self.held[sequence][length:]
