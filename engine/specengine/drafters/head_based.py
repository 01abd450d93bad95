"""What drafters that read a target's hidden states have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from specengine.cache.feature_context import FeatureContext
from specengine.core.cancel import AbortFlag
from specengine.core.drafter import Offer
from specengine.core.tokens import Tokens
from specengine.rules import AcceptanceRule
from specengine.sampling import Transforms

C = TypeVar("C", bound=FeatureContext[Any])


class HeadBased(ABC, Generic[C]):
    """A head with its context, which may be too short for the text."""

    def __init__(
        self,
        head: str,
        context: C,
        ends: frozenset[int],
        transforms: Transforms,
        rule: AcceptanceRule,
        abort: AbortFlag | None = None,
    ) -> None:
        """`head` is its name. `ends` are the ids that end a text. `abort` stops passes of
        `context`.
        """
        self._head = head
        self.abort = abort
        self.notice: str | None = None
        self.context = context
        self._ends = ends
        self._transforms = transforms
        self._rule = rule

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    def draft_s(self) -> float:
        return self.context.decode_s

    def offer(self, prefix: Tokens) -> Offer | None:
        n_ctx, longest = self.context.n_ctx, self.context.longest
        room = n_ctx - len(prefix)
        self.notice = None
        if room < 1:
            self.notice = (
                f"this chat is longer than the context of the head {self._head} ({n_ctx} "
                "tokens): continuing without its drafts"
            )
            return None
        return self._offer(prefix, room if longest is None else min(room, longest))

    @abstractmethod
    def _offer(self, prefix: Tokens, room: int) -> Offer | None:
        """`room`: draft tokens that it could give after `prefix`, at least 1."""
