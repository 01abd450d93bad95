"""What a pass evaluates: llama.cpp's `llama_batch` over numpy arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from specengine.core.tokens import Tokens
from specengine.llama import library


class Batch:
    """Up to `capacity` tokens of any sequences, each of which belongs to one sequence."""

    def __init__(self, capacity: int) -> None:
        self._token = np.zeros(capacity, dtype=np.int32)
        self._pos = np.zeros(capacity, dtype=np.int32)
        self._logits = np.zeros(capacity, dtype=np.int8)
        self._sequence = np.zeros(capacity, dtype=np.int32)
        # llama.cpp takes a list of sequences for each token: here each list has one.
        self._counts = np.ones(capacity, dtype=np.int32)
        self._lists = self._sequence.ctypes.data + 4 * np.arange(capacity, dtype=np.uintp)
        self.struct: Any = library.load().llama_batch(
            token=pointer(self._token, ctypes.c_int32),
            pos=pointer(self._pos, ctypes.c_int32),
            n_seq_id=pointer(self._counts, ctypes.c_int32),
            seq_id=pointer(self._lists, ctypes.POINTER(ctypes.c_int32)),
            logits=pointer(self._logits, ctypes.c_int8),
        )

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
        self._sequence[start:end] = sequence
        self.struct.n_tokens = end


def pointer(array: np.ndarray, kind: Any) -> Any:
    """To the first element of `array`, of the C type `kind`."""
    return array.ctypes.data_as(ctypes.POINTER(kind))
