"""Who holds which sequence of the cache, and what it holds."""

from __future__ import annotations

from collections.abc import Hashable

from specengine.core.tokens import TokenBuffer, Tokens, common_prefix
from specengine.serve.batch_cache import BatchCache, Part, padded_part


class Place:
    """One sequence of a batch cache that follows the text of whoever holds it."""

    def __init__(self, cache: BatchCache, sequence: int) -> None:
        self._cache = cache
        self._sequence = sequence
        self._held = TokenBuffer()
        self._is_known = True
        self.holder: Hashable | None = None
        self.busy = False
        self.used_at = 0.0

    def follow(self, text: Tokens) -> int:
        """Keep what `text` shares with the cache, all but its last token; how many are missing.

        Raises BackendError where the cache does not let go of the rest.
        """
        if not self._is_known:
            self.clear()
        keep = min(common_prefix(text, self._held.view()), len(text) - 1)
        if keep < len(self._held):
            self._cut(keep)
        return len(text) - keep

    def part(self, tokens: Tokens, n_rows: int) -> Part:
        """A pass over `tokens`, which follow what is held, with rows for the last `n_rows`."""
        pos, step = len(self._held), self._cache.step
        return padded_part(self._sequence, tokens, pos, step, n_rows=n_rows)

    def evaluated(self, tokens: Tokens) -> None:
        """The pass over `part(tokens, …)` is done: its padding goes."""
        self._held.extend(tokens)
        if len(tokens) % self._cache.step:
            self._cache.truncate(self._sequence, len(self._held))

    def spoil(self) -> None:
        """Nobody knows what it holds, after a pass that failed: so it is emptied before its next
        use.
        """
        self._is_known = False

    def clear(self) -> None:
        """Drop everything, whatever it is. Raises BackendError; then it is as after `spoil`."""
        self._is_known = False
        self._cut(0)
        self._is_known = True

    def _cut(self, length: int) -> None:
        self._cache.truncate(self._sequence, length)
        self._held.truncate(length)


class Places:
    """All sequences of a cache. Holders keep theirs until somebody else needs it."""

    def __init__(self, cache: BatchCache) -> None:
        self._all = [Place(cache, i) for i in range(cache.n_sequences)]

    def take(self, holder: Hashable) -> Place | None:
        """The place that `holder` had, else a free one, else that of whoever was idle longest.

        None while all are busy.
        """
        own = self._of(holder)
        if own is not None:
            return own
        idle = [place for place in self._all if not place.busy]
        if not idle:
            return None
        place = min(idle, key=lambda p: (p.holder is not None, p.used_at))
        if place.holder is not None:
            place.clear()
        place.holder = holder
        return place

    def release(self, holder: Hashable) -> None:
        """Forget what `holder` has in the cache."""
        place = self._of(holder)
        if place is not None:
            place.holder = None
            place.clear()

    @property
    def held(self) -> int:
        """Places that hold somebody's text."""
        return sum(place.holder is not None for place in self._all)

    def _of(self, holder: Hashable) -> Place | None:
        return next((place for place in self._all if place.holder == holder), None)
