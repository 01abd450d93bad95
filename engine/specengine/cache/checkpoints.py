"""Copies of a recurrent state, kept where a rollback may need them.

A recurrent state cannot drop a suffix: to go back it has to be what it was. So it is copied before
each pass, and of the copies those are kept that make a long way back cost no more than a short
one in proportion.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

State = NDArray[np.uint8]

# Enough for a handful of the largest states, and for hundreds of small ones.
_MAX_BYTES = 256 * 2**20


class Checkpoint(NamedTuple):
    """The state after the first `length` tokens of the text."""

    length: int
    state: State


class Checkpoints:
    """States of one growing text, newest last.

    Near the end every state is kept, before it ever fewer: about 2·log2(n) of n. From the newest
    on, going back by d tokens finds a state that is at most d tokens too old.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        """Beyond `max_bytes` the oldest states go; the newest always stays."""
        self._kept: list[Checkpoint] = []
        self._max_bytes = max_bytes

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, length: int, state: State) -> None:
        """Keep the state after `length` tokens. Those of longer texts are of another text now."""
        while self._kept and self._kept[-1].length >= length:
            self._kept.pop()
        self._kept.append(Checkpoint(length, state))
        self._thin()

    def before(self, length: int) -> Checkpoint | None:
        """The newest state after at most `length` tokens."""
        return next((kept for kept in reversed(self._kept) if kept.length <= length), None)

    def clear(self) -> None:
        self._kept.clear()

    def _thin(self) -> None:
        newest = self._kept[-1].length
        for i in range(len(self._kept) - 2, 0, -1):
            older, newer = self._kept[i - 1].length, self._kept[i + 1].length
            if newer - older <= newest - newer:
                del self._kept[i]
        size = sum(kept.state.nbytes for kept in self._kept)
        while size > self._max_bytes and len(self._kept) > 1:
            size -= self._kept.pop(0).state.nbytes
