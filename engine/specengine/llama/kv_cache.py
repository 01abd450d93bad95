"""llama.cpp's context with one sequence: the real `specengine.cache.context.KVCache`.

Models with a recurrent state have a cache of their own, in `recurrent_cache`.
"""

from __future__ import annotations

import ctypes
import time
from types import TracebackType
from typing import Any

import numpy as np

from specengine.cache.checkpoints import State
from specengine.cache.context import Logits
from specengine.core.cancel import AbortFlag
from specengine.core.tokens import Tokens
from specengine.llama import library
from specengine.llama.abort import abort_by
from specengine.llama.batch import Batch, failed_pass, get_logits, logits_at
from specengine.llama.model import LlamaModel

SEQUENCE = 0
_PADDING_CELLS = 64  # room for rows that only widen a pass, beyond what the caller may use


class LlamaKVCache:
    """A llama.cpp context. Every call must come from the thread that created it."""

    drops_freely = True

    def __init__(
        self,
        model: LlamaModel,
        *,
        n_ctx: int,
        n_threads: int,
        abort: AbortFlag,
        max_rows: int = 32,
        n_batch: int = 512,
        flash_attention: bool = False,
    ) -> None:
        """`n_ctx` tokens of cache; at most `max_rows` rows of logits a pass, which bounds the
        output buffer at max_rows × n_vocab floats whatever `n_ctx` is.
        """
        llama = library.load()
        self._llama = llama
        self.n_ctx = n_ctx
        self.n_vocab = model.vocab.size
        self.n_batch = n_batch
        self.max_rows = max_rows
        self.decode_s = 0.0
        self.passes = 0
        self._abort = abort
        params = llama.llama_context_default_params()
        params.n_ctx = n_ctx + _PADDING_CELLS
        params.n_batch = n_batch
        params.n_ubatch = n_batch
        params.n_outputs_max = max_rows
        # Where the architecture can: how many of the last tokens a rejection may take back.
        params.n_rs_seq = max_rows - 1
        params.n_threads = n_threads
        params.n_threads_batch = n_threads
        params.flash_attn_type = int(flash_attention)
        abort_by(params, abort, llama)
        params.no_perf = True
        library.clear_errors()
        self.handle: Any = llama.llama_init_from_model(model.handle, params)
        if not self.handle:
            raise library.no_context(n_ctx, model.path.name)
        self._memory = llama.llama_get_memory(self.handle)
        self.layout = f"{params.n_ctx} {params.flash_attn_type} {params.type_k} {params.type_v}"
        """What a saved state depends on, besides the model and the build."""
        self._has_window = llama.llama_model_n_swa(model.handle) > 0
        self._batch = Batch(n_batch)
        self._get_logits = get_logits()

    def decode(self, tokens: Tokens, pos: int, rows: slice) -> Logits:
        self._batch.clear()
        self._batch.add(tokens, pos, rows, SEQUENCE)
        started = time.perf_counter()
        status = self._llama.llama_decode(self.handle, self._batch.struct)
        address = self._get_logits(self.handle)  # waits for the end of the pass
        self.decode_s += time.perf_counter() - started
        self.passes += 1
        if status != 0:
            raise failed_pass(status, f"{len(tokens)} tokens at position {pos}")
        return logits_at(address, rows.stop - rows.start, self.n_vocab)

    def truncate(self, length: int) -> int:
        if self._remove(length):
            return length
        self.clear()
        return 0

    def clear(self) -> None:
        self._llama.llama_memory_clear(self._memory, True)

    def length(self) -> int:
        return int(self._llama.llama_memory_seq_pos_max(self._memory, SEQUENCE)) + 1

    def save(self) -> State | None:
        # llama.cpp saves nothing that a sliding window has passed, and a rollback may need it.
        return None if self._has_window else self._read_state(flags=0)

    def restore(self, state: State) -> None:
        self.clear()
        if not self._write_state(state, flags=0):
            self.clear()

    def _read_state(self, flags: int) -> State:
        size = self._llama.llama_state_seq_get_size_ext(self.handle, SEQUENCE, flags)
        state = np.empty(size, dtype=np.uint8)
        self._llama.llama_state_seq_get_data_ext(
            self.handle, _pointer(state), size, SEQUENCE, flags
        )
        return state

    def _write_state(self, state: State, flags: int) -> bool:
        """Whether llama.cpp took all of `state`."""
        read = self._llama.llama_state_seq_set_data_ext(
            self.handle, _pointer(state), state.nbytes, SEQUENCE, flags
        )
        return bool(read == state.nbytes)

    def _remove(self, length: int) -> bool:
        """Drop everything from `length` on; False where the model cannot: nothing has changed."""
        return bool(self._llama.llama_memory_seq_rm(self._memory, SEQUENCE, length, -1))

    def close(self) -> None:
        if self.handle:
            self._batch.close()
            self._llama.llama_free(self.handle)
            self.handle = None

    def __enter__(self) -> LlamaKVCache:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _pointer(state: State) -> Any:
    return state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
