"""A target's hidden states, kept beside its KV cache: what heads such as EAGLE-3 draft from."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float32]
"""One row for each token; shape (n_tokens, width)."""


class FeatureSource(Protocol):
    """What a model computed on the way to its logits."""

    @property
    def name(self) -> str:
        """What is recorded: sources of one name say the same of the same model."""
        ...

    @property
    def width(self) -> int: ...

    def read(self, n_tokens: int, into: Features) -> None:
        """Write the rows of the first `n_tokens` tokens of the last pass: (n_tokens, width)."""
        ...


class FeatureBuffer:
    """Rows for up to `capacity` tokens; what was never written takes no memory yet."""

    def __init__(self, capacity: int, width: int) -> None:
        self._data = np.empty((capacity, width), dtype=np.float32)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def view(self) -> Features:
        """The rows, shape (len, width): a view, which stays correct while the buffer only grows."""
        return self._data[: self._length]

    def read(self, source: FeatureSource, n_tokens: int) -> None:
        """Append the rows of the first `n_tokens` tokens of the last pass."""
        end = self._length + n_tokens
        source.read(n_tokens, self._data[self._length : end])
        self._length = end

    def extend(self, rows: Features) -> None:
        end = self._length + len(rows)
        self._data[self._length : end] = rows
        self._length = end

    def truncate(self, length: int) -> None:
        self._length = length
