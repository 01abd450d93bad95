"""llama.cpp's context with several sequences: the real `specengine.serve.BatchCache`.

Each sequence has cells of its own (`kv_unified` off). In one shared pool attention sums over
wherever a sequence's cells happen to lie among those of others, and the last bits of its logits
depend on the neighbours: measured, near-ties flip. In cells of its own, every row is bit for bit
that of the sequence alone, where each sequence brings a multiple of so many tokens to a pass: see
`specengine.serve.stable_parts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specengine.cache.context import Logits
from specengine.core.errors import BackendError, ModelFileError
from specengine.llama.batch import Batch
from specengine.llama.context import LlamaContext
from specengine.llama.model import LlamaModel
from specengine.serve.batch_cache import Part


class LlamaBatchCache(LlamaContext):
    """The caches of as many sessions as there are sequences."""

    def __init__(
        self, model: LlamaModel, *, n_sequences: int, n_batch: int = 512, **settings: Any
    ) -> None:
        """At most 256 sequences; `settings` as for `LlamaContext`. Raises ModelFileError."""
        if model.is_recurrent:
            raise ModelFileError(
                f"{model.path.name} has a recurrent state, from which rejected tokens of several "
                "sessions cannot be removed: serve another model"
            )
        super().__init__(model, n_sequences=n_sequences, n_batch=n_batch, **settings)
        self.n_sequences = n_sequences
        self.step = 1
        self._batch = Batch(n_batch)

    def decode(self, parts: Sequence[Part]) -> list[Logits]:
        self._batch.clear()
        for part in parts:
            self._batch.add(part.tokens, part.pos, part.rows, part.sequence)
        struct, what = self._batch.struct, f"{len(parts)} sequences in one pass"
        address = self._pass(self._llama.llama_decode, struct, what)
        counts = [part.rows.stop - part.rows.start for part in parts]
        rows = self._rows(address, sum(counts))
        result, start = [], 0
        for count in counts:
            result.append(rows[start : start + count])
            start += count
        return result

    def truncate(self, sequence: int, length: int) -> None:
        if not self._remove(length, sequence):
            raise BackendError(f"llama.cpp cannot remove the tokens after {length} of a session")
