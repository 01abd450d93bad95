"""Token sequences that know the hash of each of their prefixes.

Both ends of a connection name a place in a text by such a hash:

    h(0)     = 16 zero bytes
    h(n + 1) = BLAKE2b-128(h(n) followed by token n as 4 little-endian bytes)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from specengine.core.tokens import TokenBuffer, Tokens

_SIZE = 16
_START = bytes(_SIZE)


def next_hash(prefix_hash: bytes, token: int) -> bytes:
    """The hash of a prefix with one more token."""
    return hashlib.blake2b(prefix_hash + token.to_bytes(4, "little"), digest_size=_SIZE).digest()


class Transcript:
    """Committed tokens, growing at the end."""

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self._tokens = TokenBuffer()
        self._hashes = bytearray(_START)
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def tokens(self) -> Tokens:
        """A view, valid until `truncate`."""
        return self._tokens.view()

    @property
    def hash(self) -> bytes:
        return bytes(self._hashes[-_SIZE:])

    def hash_at(self, length: int) -> bytes:
        """Hash of the first `length` tokens, 0 <= length <= len(self)."""
        return bytes(self._hashes[_SIZE * length : _SIZE * (length + 1)])

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self._hashes += next_hash(self.hash, token)
            self._tokens.append(token)

    def copy(self) -> Transcript:
        other = Transcript()
        other._tokens = TokenBuffer(self.tokens)
        other._hashes = bytearray(self._hashes)
        return other

    def truncate(self, length: int) -> None:
        self._tokens.truncate(length)
        del self._hashes[_SIZE * (length + 1) :]
