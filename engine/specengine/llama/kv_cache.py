"""llama.cpp's context with one sequence: the real `specengine.cache.context.KVCache`.

Models with a recurrent state have a cache of their own, in `recurrent_cache`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from specengine.cache.checkpoints import State
from specengine.cache.context import Logits
from specengine.core.tokens import Tokens
from specengine.llama.batch import Batch, pointer
from specengine.llama.context import LlamaContext
from specengine.llama.model import LlamaModel

SEQUENCE = 0


class LlamaKVCache(LlamaContext):
    """The cache of one text."""

    drops_freely = True

    def __init__(
        self, model: LlamaModel, *, max_rows: int = 32, n_batch: int = 512, **settings: Any
    ) -> None:
        """`max_rows` bounds the output buffer at max_rows × n_vocab floats, however large the
        context is; `settings` as for `LlamaContext`.
        """
        super().__init__(
            model, max_rows=max_rows, n_batch=n_batch, snapshots=max_rows - 1, **settings
        )
        self.passes = 0
        self._has_window = self._llama.llama_model_n_swa(model.handle) > 0
        self._batch = Batch(n_batch)

    def decode(self, tokens: Tokens, pos: int, rows: slice) -> Logits:
        self._batch.clear()
        self._batch.add(tokens, pos, rows)
        self.passes += 1
        struct, what = self._batch.struct, f"{len(tokens)} tokens at position {pos}"
        address = self._pass(self._llama.llama_decode, struct, what)
        return self._rows(address, rows.stop - rows.start)

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
            self.handle, pointer(state, ctypes.c_uint8), size, SEQUENCE, flags
        )
        return state

    def _write_state(self, state: State, flags: int) -> bool:
        """Whether llama.cpp took all of `state`."""
        read = self._llama.llama_state_seq_set_data_ext(
            self.handle, pointer(state, ctypes.c_uint8), state.nbytes, SEQUENCE, flags
        )
        return bool(read == state.nbytes)
