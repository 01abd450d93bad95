"""Where the end of a text occurred before: hash chains over n-grams, as LZ77 coders keep them.

For n-grams of a few lengths, the positions that follow n-grams of equal hash form a chain, newest
first. A lookup walks the chain of the longest n-gram that has occurred, and compares backwards how
far each of its positions really matches. Tokens are added and dropped again at the end in O(1)
each, many at once without a loop, and one takes 16 bytes of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from specengine.core.tokens import TokenBuffer, Tokens, common_prefix

LONGEST_MATCH = 16  # tokens; what matches further back makes no difference
_LENGTHS = (1, 3, 8)  # of the n-grams that have chains
_WINDOW = max(_LENGTHS)
_CANDIDATES = 64  # of a chain, the newest

NOTHING = -1  # no token: comes before a text, and between texts that are indexed as one

# A hash is a polynomial in an odd constant modulo 2**64, of which the upper 16 bits are used: they
# depend on all tokens, and numpy sorts 16 bits in linear time.
_FACTOR = 0x9E3779B97F4A7C15
_POWERS = np.array([pow(_FACTOR, i + 1, 1 << 64) for i in range(_WINDOW)], dtype=np.uint64)
_POWER_LIST: list[int] = _POWERS.tolist()
_MASK = (1 << 64) - 1
_FEW = 8  # new tokens that are added one by one: those of a round

Hashes = NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Matches:
    """The positions of a text whose `length` tokens before are those at the end of another, or of
    the text itself. Newest first, at least one.
    """

    length: int
    positions: list[int]


class SuffixIndex:
    """An index over one text, which may grow and be cut at its end."""

    def __init__(self, text: Iterable[int] | Tokens = ()) -> None:
        # Padded in front, so that there is something to compare with before every position.
        self._padded = TokenBuffer([NOTHING] * LONGEST_MATCH)
        self._chains = [_Chain() for _ in _LENGTHS]
        self.follow(np.asarray(text, dtype=np.int32))

    def __len__(self) -> int:
        return len(self._padded) - LONGEST_MATCH

    @property
    def text(self) -> Tokens:
        return self._padded.view()[LONGEST_MATCH:]

    @property
    def end(self) -> Tokens:
        """The last LONGEST_MATCH tokens of the text, padded in front."""
        return self._padded.view()[-LONGEST_MATCH:]

    def follow(self, text: Tokens) -> None:
        """Make `text` the indexed text; costs as much as it differs from the present one."""
        kept = common_prefix(self.text, text)
        if kept < len(self):
            for chain, hashes in zip(self._chains, self._hashes_from(kept), strict=True):
                chain.drop(hashes)
            self._padded.truncate(LONGEST_MATCH + kept)
        if len(text) - kept <= _FEW:
            for token in text[kept:].tolist():
                self._append(token)
        else:
            self._padded.extend(text[kept:])
            for chain, hashes in zip(self._chains, self._hashes_from(kept), strict=True):
                chain.extend(hashes)

    def longest_matches(self, end: Tokens) -> Matches | None:
        """Where the longest possible part of `end` occurred before; None if not even its last
        token did. `end` is the `end` of this index, or of another.

        Among many occurrences of a frequent n-gram only the newest are looked at.
        """
        if not len(self):
            return None
        wanted = end.tolist()
        hashes = _hashes_of_window(tuple(wanted[-_WINDOW:]))
        wanted.reverse()
        for i in reversed(range(len(_LENGTHS))):
            positions = self._chains[i].newest(hashes[i], _CANDIDATES)
            lengths = [self._match_length(position, wanted) for position in positions]
            longest = max(lengths, default=0)
            if longest >= _LENGTHS[i]:  # else only hashes were equal
                pairs = zip(positions, lengths, strict=True)
                return Matches(longest, [p for p, length in pairs if length == longest])
        return None

    def _append(self, token: int) -> None:
        hashes = _hashes_of_window(tuple(self._padded.view()[-_WINDOW:].tolist()))
        self._padded.append(token)
        for chain, hash_ in zip(self._chains, hashes, strict=True):
            chain.append(hash_)

    def _hashes_from(self, start: int) -> NDArray[np.uint16]:
        """The hashes of the n-grams before each position from `start` on."""
        return _hashes(self._padded.view()[LONGEST_MATCH + start - _WINDOW : -1])

    def _match_length(self, position: int, wanted: Sequence[int]) -> int:
        """How many tokens before `position` are the first of `wanted`, which runs backwards."""
        before = self._padded.view()[position : position + LONGEST_MATCH].tolist()
        before.reverse()
        length = 0
        for token, wish in zip(before, wanted, strict=True):
            if token != wish or wish == NOTHING:
                break
            length += 1
        return length


class _Chain:
    """The positions after n-grams of one length, linked where the n-grams' hashes are equal."""

    def __init__(self) -> None:
        self._newest = np.full(1 << 16, NOTHING, dtype=np.int32)  # by hash
        self._earlier = TokenBuffer()  # position -> the one before it with the same hash

    def append(self, hash_: int) -> None:
        """Add one position: what `extend` does, without its arrays."""
        position = len(self._earlier)
        self._earlier.append(self._newest.item(hash_))
        self._newest[hash_] = position

    def extend(self, hashes: Hashes) -> None:
        """Add a position for each of `hashes`, those of the n-grams before them."""
        start = len(self._earlier)
        positions = np.arange(start, start + len(hashes), dtype=np.int32)
        order = hashes.argsort(kind="stable")
        sorted_hashes = hashes[order]
        earlier = np.empty_like(positions)
        earlier[order[1:]] = positions[order[:-1]]
        first = np.append(True, sorted_hashes[1:] != sorted_hashes[:-1])
        earlier[order[first]] = self._newest[sorted_hashes[first]]
        self._earlier.extend(earlier)
        self._newest[hashes] = positions  # of equal hashes the last one holds

    def drop(self, hashes: Hashes) -> None:
        """Undo the addition of the last `len(hashes)` positions."""
        kept = len(self._earlier) - len(hashes)
        earlier = self._earlier.view()[kept:]
        self._newest[hashes[::-1]] = earlier[::-1]  # of equal hashes the oldest one holds
        self._earlier.truncate(kept)

    def newest(self, hash_: int, n: int) -> list[int]:
        """The newest `n` positions, newest first; fewer where there are no more."""
        earlier = self._earlier.view()
        positions: list[int] = []
        position = self._newest.item(hash_)
        while position != NOTHING and len(positions) < n:
            positions.append(position)
            position = earlier.item(position)
        return positions


def _hashes(tokens: Tokens) -> Hashes:
    """Hashes of the n-grams at the end of each window of _WINDOW tokens.

    Shape (len(_LENGTHS), n_windows).
    """
    windows = sliding_window_view(tokens, _WINDOW)
    hashes = np.zeros(len(windows), dtype=np.uint64)
    result = np.empty((len(_LENGTHS), len(windows)), dtype=np.uint16)
    for i in range(_WINDOW):
        hashes += (windows[:, _WINDOW - 1 - i].astype(np.uint64) + 1) * _POWERS[i]
        if i + 1 in _LENGTHS:
            result[_LENGTHS.index(i + 1)] = hashes >> 48
    return result


@lru_cache(maxsize=4)  # the end of a text is asked for several times
def _hashes_of_window(window: tuple[int, ...]) -> list[int]:
    """`_hashes` of a single window, where arrays cost more than they bring."""
    result = []
    hash_ = 0
    for i, (token, power) in enumerate(zip(reversed(window), _POWER_LIST, strict=True), start=1):
        hash_ = (hash_ + (token + 1) * power) & _MASK
        if i in _LENGTHS:
            result.append(hash_ >> 48)
    return result
