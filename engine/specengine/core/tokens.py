"""A growing token sequence whose views cost nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]


class TokenBuffer:
    """Token ids in one int32 array that doubles when full.

    `view()` shares memory with the buffer: it stays correct while the buffer only grows, and must
    be taken again after `truncate`.
    """

    def __init__(self, tokens: Iterable[int] | Tokens = ()) -> None:
        initial = as_tokens(tokens)
        self._data = np.empty(max(256, 2 * len(initial)), dtype=np.int32)
        self._data[: len(initial)] = initial
        self._length = len(initial)

    def __len__(self) -> int:
        return self._length

    def view(self) -> Tokens:
        return self._data[: self._length]

    def append(self, token: int) -> None:
        if self._length == len(self._data):
            self.extend((token,))
            return
        self._data[self._length] = token
        self._length += 1

    def extend(self, tokens: Sequence[int] | Tokens) -> None:
        end = self._length + len(tokens)
        if end > len(self._data):
            grown = np.empty(2 * end, dtype=np.int32)
            grown[: self._length] = self.view()
            self._data = grown
        self._data[self._length : end] = tokens
        self._length = end

    def truncate(self, length: int) -> None:
        if not 0 <= length <= self._length:
            raise ValueError(f"cannot truncate {self._length} tokens to {length}")
        self._length = length


def as_tokens(tokens: Iterable[int] | Tokens) -> Tokens:
    """`tokens` as an int32 array, without a copy where it is one already."""
    if isinstance(tokens, np.ndarray):
        return tokens.astype(np.int32, copy=False)
    return np.fromiter(tokens, dtype=np.int32)


def common_prefix(a: Tokens, b: Tokens) -> int:
    """How many leading tokens `a` and `b` share."""
    n = min(len(a), len(b))
    differs = a[:n] != b[:n]
    first = int(differs.argmax()) if n else 0
    return first if n and differs[first] else n
