"""Prompt lookup: what followed the last time the text said this (Saxena 2023)."""

from __future__ import annotations

from specengine.controller import Offer
from specengine.draft import Draft
from specengine.sequence import Tokens, common_prefix

_LONGEST, _SHORTEST = 5, 2  # tokens of the suffix that is looked up
_PRIORS = {2: 0.35, 3: 0.5, 4: 0.6, 5: 0.8}  # longer matches are more often right


class LookupDrafter:
    """Copies the continuation of the most recent occurrence of the text's longest known suffix.

    Needs no model, costs microseconds, and pays wherever an answer repeats its prompt: edits,
    summaries, quotations, code. Adding a token is O(1): one dictionary entry for each n-gram
    length.
    """

    name = "lookup"
    draft_s = 0.0
    notice: str | None = None

    def __init__(self) -> None:
        self._text: list[int] = []
        self._indexed: Tokens | None = None
        # For each n-gram, the position after its last occurrence that has a continuation.
        self._next: dict[tuple[int, ...], int] = {}
        self._found: int | None = None  # where the continuation of the last offer starts

    def offer(self, prefix: Tokens) -> Offer | None:
        self._follow(prefix)
        self._found = None
        for n in range(min(_LONGEST, len(self._text)), _SHORTEST - 1, -1):
            position = self._next.get(tuple(self._text[-n:]))
            if position is not None:
                self._found = position
                available = len(self._text) - position
                return Offer(f"lookup-{n}", available, prior=_PRIORS[n])
        return None

    def propose(self, prefix: Tokens, k: int) -> Draft:
        draft = Draft()
        if self._found is not None:
            for token in self._text[self._found : self._found + k]:
                draft.append(token, None)
        return draft

    def _follow(self, prefix: Tokens) -> None:
        """Index what `prefix` has beyond the text that is indexed already."""
        known = self._indexed
        if known is not None and common_prefix(known, prefix) < len(known):
            self._text.clear()
            self._next.clear()
        for token in prefix[len(self._text) :].tolist():
            # The n-grams that end before `token` now have a continuation: it.
            self._index_suffixes()
            self._text.append(token)
        self._indexed = prefix.copy()

    def _index_suffixes(self) -> None:
        end = len(self._text)
        for n in range(_SHORTEST, min(_LONGEST, end) + 1):
            self._next[tuple(self._text[end - n :])] = end
