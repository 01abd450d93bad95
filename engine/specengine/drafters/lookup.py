"""Prompt lookup (Saxena 2023), over all the text there is: this chat and earlier answers.

The longest suffix of the text that occurs anywhere before is found, and its most frequent
continuation drafted, in the manner of SuffixDecoding (Oliaro et al. 2024).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from specengine.core.draft import Draft
from specengine.core.drafter import Drafter, Offer
from specengine.core.limits import MAX_DRAFT
from specengine.core.tokens import Tokens, as_tokens
from specengine.drafters.suffix_index import NOTHING, Matches, SuffixIndex

# Acceptance of the first draft token by where it was found and how sure the match is, until this
# text has shown its own. Measured with the profile `laptop` on bench/prompts.jsonl, in answers that
# repeat little (chat, prose, code): what repeats much soon shows it.
_PRIORS = {
    "lookup-copy": 0.75,
    "lookup-phrase": 0.5,
    "lookup-word": 0.3,
    "lookup-split": 0.13,
    "earlier-copy": 0.65,
    "earlier-phrase": 0.35,
    "earlier-word": 0.2,
    "earlier-split": 0.1,
}


class LookupDrafter(Drafter):
    """Copies what followed the last time the text said this.

    Needs no model, costs a tenth of a millisecond, and pays wherever an answer repeats its prompt:
    edits, summaries, quotations, code.
    """

    name = "lookup"

    def __init__(self) -> None:
        self._chat = SuffixIndex()
        self._earlier = SuffixIndex()
        self._found: _Continuation | None = None

    def remember(self, texts: Iterable[Sequence[int]]) -> None:
        """Draft from `texts` too, oldest first, in place of those remembered so far."""
        parts = [np.append(np.asarray(text, dtype=np.int32), NOTHING) for text in texts]
        self._earlier.follow(np.concatenate(parts, dtype=np.int32) if parts else as_tokens(()))

    def offer(self, prefix: Tokens) -> Offer | None:
        self._chat.follow(prefix)
        found = self._search()
        self._found = found
        if found is None:
            return None
        return Offer(found.kind, found.longest, _PRIORS[found.kind], family=self.name)

    def propose(self, prefix: Tokens, k: int) -> Draft:
        draft = Draft()
        if self._found is not None:
            for token in self._found.tokens(k):
                draft.append(token, None)
        return draft

    def _search(self) -> _Continuation | None:
        """What followed the longest match; this chat knows better than earlier ones."""
        end = self._chat.end
        sources = (("lookup", self._chat), ("earlier", self._earlier))
        found = [
            (matches, index.text, source)
            for source, index in sources
            if (matches := index.longest_matches(end)) is not None
        ]
        found.sort(key=lambda f: f[0].length, reverse=True)  # among equals the order stays
        continuations = (_continuation(*f) for f in found)
        return next((c for c in continuations if c is not None), None)


@dataclass(frozen=True, slots=True)
class _Continuation:
    copies: list[list[int]]
    """What followed each match, the most recent first; none is empty."""
    kind: str

    @property
    def longest(self) -> int:
        """Tokens that can be drafted, at most."""
        return max(map(len, self.copies))

    def tokens(self, k: int) -> list[int]:
        """The most frequent continuation, token by token; the newest among equals."""
        copies = self.copies
        if len(copies) == 1:
            return copies[0][:k]
        tokens: list[int] = []
        while len(tokens) < k and (
            votes := Counter(copy[len(tokens)] for copy in copies if len(tokens) < len(copy))
        ):
            token = votes.most_common(1)[0][0]
            copies = [c for c in copies if len(tokens) < len(c) and c[len(tokens)] == token]
            tokens.append(token)
        return tokens


def _continuation(matches: Matches, text: Tokens, source: str) -> _Continuation | None:
    """What followed `matches` in `text`; None where nothing follows any of them."""
    copies = [copy for p in matches.positions if (copy := _copy(text, p))]
    if not copies:
        return None
    agreed = len({copy[0] for copy in copies}) == 1
    return _Continuation(copies, f"{source}-{_certainty(matches.length, agreed)}")


def _copy(text: Tokens, position: int) -> list[int]:
    """What `text` says from `position` on. Where it ends it is taken to repeat itself, as if what
    was copied so far were already there; where another text begins the copy ends.
    """
    tokens: list[int] = text[position : position + MAX_DRAFT].tolist()
    if NOTHING in tokens:
        return tokens[: tokens.index(NOTHING)]
    return (tokens * MAX_DRAFT)[:MAX_DRAFT]


def _certainty(length: int, agreed: bool) -> str:
    """By the length of the match, and whether the text went on alike in all its places."""
    if not agreed:
        return "split"
    return "copy" if length >= 4 else "phrase" if length >= 2 else "word"
