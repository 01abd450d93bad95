"""llama.cpp's context with several sequences: the real `specengine.serve.BatchCache`.

Each sequence has cells of its own (`kv_unified` off). In one shared pool attention sums over
wherever a sequence's cells happen to lie among those of others, and the last bits of its logits
depend on the neighbours: measured, near-ties flip. In cells of its own, every row is bit for bit
that of the sequence alone, where each sequence brings a multiple of so many tokens to a pass: see
`specengine.serve.stable_parts`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from specengine.cache.context import Logits
from specengine.core.cancel import AbortFlag
from specengine.core.errors import BackendError, ModelFileError
from specengine.llama import library
from specengine.llama.abort import abort_by
from specengine.llama.batch import Batch, failed_pass, read_logits
from specengine.llama.model import LlamaModel
from specengine.serve.batch_cache import Part

_PADDING_CELLS = 64  # room for rows that only widen a part, beyond what the caller may use


class LlamaBatchCache:
    """Every call must come from the thread that created it."""

    def __init__(
        self,
        model: LlamaModel,
        *,
        n_sequences: int,
        n_ctx: int,
        n_threads: int,
        abort: AbortFlag,
        max_rows: int,
        n_batch: int = 512,
        flash_attention: bool = False,
    ) -> None:
        """`n_ctx` tokens for each of at most 256 sequences. Raises ModelFileError."""
        llama = library.load()
        if model.is_recurrent:
            raise ModelFileError(
                f"{model.path.name} has a recurrent state, from which rejected tokens of several "
                "sessions cannot be removed: serve another model"
            )
        self._llama = llama
        self.n_sequences = n_sequences
        self.n_ctx = n_ctx
        self.n_vocab = model.vocab.size
        self.n_batch = n_batch
        self.max_rows = max_rows
        self.step = 1
        self._abort = abort  # llama.cpp keeps only its address
        self.decode_s = 0.0
        params = llama.llama_context_default_params()
        params.n_ctx = (n_ctx + _PADDING_CELLS) * n_sequences
        params.n_seq_max = n_sequences
        params.kv_unified = False
        params.n_batch = n_batch
        params.n_ubatch = n_batch
        params.n_outputs_max = max_rows
        params.n_threads = n_threads
        params.n_threads_batch = n_threads
        params.flash_attn_type = int(flash_attention)
        abort_by(params, abort, llama)
        params.no_perf = True
        library.clear_errors()
        self.handle: Any = llama.llama_init_from_model(model.handle, params)
        if not self.handle:
            raise library.failure(
                f"llama.cpp cannot allocate {n_sequences} sessions of {n_ctx} tokens with "
                f"{model.path.name}: {library.last_error()}; use fewer or shorter sessions"
            )
        self._memory = llama.llama_get_memory(self.handle)
        self._batch = Batch(n_batch)

    def decode(self, parts: Sequence[Part]) -> list[Logits]:
        self._batch.clear()
        for part in parts:
            self._batch.add(part.tokens, part.pos, part.rows, part.sequence)
        started = time.perf_counter()
        status = self._llama.llama_decode(self.handle, self._batch.struct)
        self._llama.llama_synchronize(self.handle)
        self.decode_s += time.perf_counter() - started
        if status != 0:
            raise failed_pass(status, f"{len(parts)} sequences in one pass")
        return self._rows(parts)

    def _rows(self, parts: Sequence[Part]) -> list[Logits]:
        counts = [part.rows.stop - part.rows.start for part in parts]
        rows = read_logits(self.handle, sum(counts), self.n_vocab)
        result, start = [], 0
        for count in counts:
            result.append(rows[start : start + count])
            start += count
        return result

    def truncate(self, sequence: int, length: int) -> None:
        if not self._llama.llama_memory_seq_rm(self._memory, sequence, length, -1):
            raise BackendError(f"llama.cpp cannot remove the tokens after {length} of a session")

    def close(self) -> None:
        if self.handle:
            self._batch.close()
            self._llama.llama_free(self.handle)
            self.handle = None
