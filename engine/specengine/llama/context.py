"""A llama.cpp context: what the caches of targets, sessions and heads have in common."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache, lru_cache
from types import TracebackType
from typing import Any, Self

import numpy as np

from specengine.cache.context import Logits
from specengine.core.cancel import AbortFlag
from specengine.core.errors import BackendError, CancelledError
from specengine.llama import library
from specengine.llama.abort import abort_by
from specengine.llama.model import LlamaModel

_PADDING_CELLS = 64  # room for rows that only widen a pass, beyond what the caller may use
_ABORTED = 2


class LlamaContext:
    """Every call must come from the thread that created it."""

    def __init__(
        self,
        model: LlamaModel,
        *,
        n_ctx: int,
        n_threads: int,
        abort: AbortFlag,
        n_batch: int,
        max_rows: int,
        n_sequences: int = 1,
        flash_attention: bool = False,
        snapshots: int = 0,
        context_type: int = 0,
        target: Any = None,
    ) -> None:
        """`n_ctx` tokens for each of `n_sequences`, in cells of their own; at most `n_batch` tokens
        and `max_rows` rows of logits a pass. `snapshots`: how many of the last tokens an
        architecture with a recurrent state may take back, where it can. `target`: the context that
        a head goes on from. Raises ModelFileError or OutOfMemoryError.
        """
        llama = library.load()
        self._llama = llama
        self.n_ctx = n_ctx
        self.n_vocab = model.vocab.size
        self.n_batch = n_batch
        self.max_rows = max_rows
        self.decode_s = 0.0
        self._abort = abort  # llama.cpp keeps only its address
        params = llama.llama_context_default_params()
        params.n_ctx = (n_ctx + _PADDING_CELLS) * n_sequences
        params.n_seq_max = n_sequences
        params.kv_unified = False
        params.n_batch = params.n_ubatch = n_batch
        params.n_outputs_max = max_rows
        params.n_rs_seq = snapshots
        params.n_threads = params.n_threads_batch = n_threads
        params.flash_attn_type = int(flash_attention)
        params.ctx_type = context_type
        params.ctx_other = target
        params.no_perf = True
        abort_by(params, abort, llama)
        library.clear_errors()
        self.handle: Any = llama.llama_init_from_model(model.handle, params)
        if not self.handle:
            several, remedy = "", "use a smaller --ctx"
            if n_sequences > 1:
                several, remedy = f" in each of {n_sequences} sessions", f"{remedy}, or fewer"
            raise library.failure(
                f"llama.cpp has no room for {n_ctx} tokens{several} with {model.path.name}: "
                f"{library.last_error()}; {remedy}"
            )
        self._memory = llama.llama_get_memory(self.handle)
        self._get_logits = _get_logits()

    def _pass(self, function: Callable[[Any, Any], int], batch: Any, what: str) -> int | None:
        """Let llama_decode or llama_encode evaluate a `batch`; the address of its logits.

        Raises CancelledError where it was aborted, BackendError, which names `what` was evaluated.
        """
        started = time.perf_counter()
        status = function(self.handle, batch)
        address = self._get_logits(self.handle)  # waits for the end of the pass
        self.decode_s += time.perf_counter() - started
        if status == _ABORTED:
            raise CancelledError("cancelled")
        if status != 0:
            raise BackendError(
                f"llama.cpp could not evaluate {what} (code {status}): {library.last_error()}"
            )
        return address

    def _rows(self, address: int | None, n_rows: int) -> Logits:
        """The rows of the last pass, shape (n_rows, n_vocab): a view, valid until the next one."""
        return _logits_at(address, n_rows, self.n_vocab)

    def _remove(self, length: int, sequence: int = 0) -> bool:
        """Drop everything from `length` on; False where the model cannot: nothing has changed."""
        return bool(self._llama.llama_memory_seq_rm(self._memory, sequence, length, -1))

    def close(self) -> None:
        if self.handle:
            self._llama.llama_free(self.handle)
            self.handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@cache
def _get_logits() -> Callable[[Any], int | None]:
    prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    found: Callable[[Any], int | None] = prototype(
        ("llama_get_logits", library.load().llama_cpp._lib)
    )
    return found


@lru_cache(maxsize=64)  # making a view costs more than reading it: llama.cpp keeps its buffer
def _logits_at(address: int | None, n_rows: int, n_vocab: int) -> Logits:
    if n_rows == 0:
        return np.empty((0, n_vocab), dtype=np.float32)
    assert address is not None, "llama.cpp returned no rows although rows were asked for"
    data = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
    rows: Logits = np.ctypeslib.as_array(data, shape=(n_rows, n_vocab))
    return rows
