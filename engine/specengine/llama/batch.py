"""What a pass evaluates: llama.cpp's `llama_batch`, filled through numpy views."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specengine.cache.context import Logits
from specengine.core.errors import BackendError, CancelledError, SpecEngineError
from specengine.core.tokens import Tokens
from specengine.llama import library

_ABORTED = 2


class Batch:
    """Up to `capacity` tokens of any sequences, each of which belongs to one sequence."""

    def __init__(self, capacity: int) -> None:
        self._llama = library.load()
        self.struct = self._llama.llama_batch_init(capacity, 0, 1)
        self._token = _view(self.struct.token, capacity, np.int32)
        self._pos = _view(self.struct.pos, capacity, np.int32)
        self._logits = _view(self.struct.logits, capacity, np.int8)
        _view(self.struct.n_seq_id, capacity, np.int32)[:] = 1
        # The sequence of each token: llama.cpp keeps a pointer to a list of them.
        self._pointers = [self.struct.seq_id[i] for i in range(capacity)]
        for pointer in self._pointers:
            pointer[0] = 0
        self._sequences = [0] * capacity  # what they point to

    def clear(self) -> None:
        self.struct.n_tokens = 0

    def add(self, tokens: Tokens, pos: int, rows: slice, sequence: int = 0) -> None:
        """Append `tokens` of `sequence`, which stand at `pos`…; `tokens[rows]` ask for logits."""
        start = self.struct.n_tokens
        end = start + len(tokens)
        self._token[start:end] = tokens
        self._pos[start:end] = np.arange(pos, pos + len(tokens), dtype=np.int32)
        self._logits[start:end] = 0
        self._logits[start + rows.start : start + rows.stop] = 1
        for i in range(start, end):
            if self._sequences[i] != sequence:
                self._sequences[i] = self._pointers[i][0] = sequence
        self.struct.n_tokens = end

    def close(self) -> None:
        self._llama.llama_batch_free(self.struct)


def failed_pass(status: int, what: str) -> SpecEngineError:
    """What to raise for a `status` of llama_decode or llama_encode that is not 0: CancelledError
    where the pass over `what` was aborted, else BackendError.
    """
    if status == _ABORTED:
        return CancelledError("cancelled")
    return BackendError(
        f"llama.cpp could not evaluate {what} (code {status}): {library.last_error()}"
    )


def read_logits(context: Any, n_rows: int, n_vocab: int) -> Logits:
    """The rows of the last pass, shape (n_rows, n_vocab): a view, valid until the next one."""
    return logits_at(get_logits()(context), n_rows, n_vocab)


@cache
def get_logits() -> Callable[[Any], int | None]:
    """llama.cpp's function that waits for the end of a pass and tells the address of its logits."""
    prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    found: Callable[[Any], int | None] = prototype(
        ("llama_get_logits", library.load().llama_cpp._lib)
    )
    return found


@lru_cache(maxsize=64)  # making a view costs more than reading it: llama.cpp keeps its buffer
def logits_at(address: int | None, n_rows: int, n_vocab: int) -> Logits:
    """A view of the `n_rows` rows at `address`, shape (n_rows, n_vocab)."""
    if n_rows == 0:
        return np.empty((0, n_vocab), dtype=np.float32)
    assert address is not None, "llama.cpp returned no rows although rows were asked for"
    data = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
    rows: Logits = np.ctypeslib.as_array(data, shape=(n_rows, n_vocab))
    return rows


def _view(pointer: Any, n: int, dtype: type[np.generic]) -> NDArray[Any]:
    return np.ctypeslib.as_array(pointer, shape=(n,)).view(dtype)
