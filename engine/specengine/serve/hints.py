"""Draft tokens that a client has sent ahead of what is committed.

A hint says: after the text with this hash, the token may be that. So hints may come late, twice,
out of order or not at all: those that continue the committed text are found by its hash, all others
never are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from specengine.stream.transcript import next_hash

_KEPT = 1024


class Hints:
    """The most recent hints of one answer."""

    def __init__(self) -> None:
        self._next: OrderedDict[bytes, int] = OrderedDict()

    def add(self, prefix_hash: bytes, tokens: Sequence[int]) -> None:
        """`tokens` may follow the text with `prefix_hash`."""
        for token in tokens:
            self._next[prefix_hash] = token
            self._next.move_to_end(prefix_hash)
            prefix_hash = next_hash(prefix_hash, token)
        while len(self._next) > _KEPT:
            self._next.popitem(last=False)

    def after(self, prefix_hash: bytes, longest: int) -> list[int]:
        """At most `longest` tokens that may follow the text with `prefix_hash`."""
        tokens: list[int] = []
        while len(tokens) < longest:
            token = self._next.get(prefix_hash)
            if token is None:
                break
            tokens.append(token)
            prefix_hash = next_hash(prefix_hash, token)
        return tokens
