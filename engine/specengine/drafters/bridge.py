"""How a draft model reads the target's text and names its tokens as the target does."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from specengine.cache.context import Logits
from specengine.core.tokens import Tokens
from specengine.core.vocab import Vocab
from specengine.drafters.translation import SharedTokens, Translation


class Bridge(Protocol):
    """All ids are the target's, where it is not said otherwise."""

    @property
    def ends(self) -> frozenset[int]:
        """The ids that end a text."""
        ...

    def read(self, prefix: Tokens) -> Tokens:
        """The draft model's own ids for `prefix`: a view, valid until the next call."""
        ...

    def row(self, logits: Logits) -> Logits:
        """The draft model's logits, shape (its n_vocab,), by target id; valid until the next call.

        What the target lacks is left out, what the draft model lacks is -inf or beyond the end.
        """
        ...

    def to_draft(self, token: int) -> int:
        """The draft model's own id of a token that `row` gives a chance."""
        ...


class SameIds:
    """Both vocabularies agree, up to ids that only the larger one has."""

    def __init__(self, draft: Vocab, n_shared: int) -> None:
        """Ids below `n_shared` exist in both; others are never drafted."""
        self.ends = draft.eog
        self._n_shared = n_shared

    def read(self, prefix: Tokens) -> Tokens:
        return prefix

    def row(self, logits: Logits) -> Logits:
        return logits[: self._n_shared]

    def to_draft(self, token: int) -> int:
        return token


class TokenIntersection:
    """Different vocabularies: only tokens that both have are drafted (TLI, Timor et al. 2025).

    The chances of the others are shared out among them, in proportion, by the softmax.
    """

    def __init__(self, target: Vocab, draft: Vocab, shared: SharedTokens) -> None:
        self.ends = target.eog
        self._shared = shared
        self._translation = Translation(target, draft, shared)
        self._row = np.full(target.size, -np.inf, dtype=np.float32)

    def read(self, prefix: Tokens) -> Tokens:
        return self._translation.follow(prefix)

    def row(self, logits: Logits) -> Logits:
        self._row[self._shared.target_ids] = logits[self._shared.draft_ids]
        return self._row

    def to_draft(self, token: int) -> int:
        id_ = self._shared.to_draft(token)
        assert id_ is not None, (
            f"token {token} was drafted, but the draft model's vocabulary has no such token"
        )
        return id_
