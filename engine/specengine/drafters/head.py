"""A head that goes on from the target's hidden states as drafter (EAGLE-3, Li et al. 2025)."""

from __future__ import annotations

from collections.abc import Sequence

from specengine.cache.context import Logits
from specengine.cache.costs import WIDEST
from specengine.cache.head_context import HeadContext
from specengine.core.draft import Draft
from specengine.core.drafter import Offer, Pace
from specengine.core.tokens import TokenBuffer, Tokens
from specengine.drafters.drawing import draw
from specengine.drafters.head_based import HeadBased

_PRIOR = 0.5


class HeadDrafter(HeadBased[HeadContext]):
    """Samples each draft token from the head, after the same transforms as the target's."""

    @property
    def name(self) -> str:
        return self._head

    def _offer(self, prefix: Tokens, room: int) -> Offer | None:
        missing = self.context.missing(prefix)
        if missing is None:
            return None
        costs, start_s = self.context.costs, 0.0
        if missing > WIDEST:
            start_s, missing = costs.prompt_seconds(missing - 1), 1
        first_s, next_s = costs.seconds(missing), costs.seconds(1)
        return Offer(
            self.name,
            room,
            _PRIOR,
            start_s,
            together_s=lambda k: first_s + (k - 1) * next_s,
            paced=True,
        )

    def propose(self, prefix: Tokens, k: int, pace: Pace | None = None) -> Draft:
        text = TokenBuffer(prefix)

        def row(drafted: Sequence[int]) -> Logits:
            text.extend(drafted[-1:])
            return self.context.logits(text.view(), len(drafted))

        return draw(row, k, prefix, self._transforms, self._rule, self._ends, pace)
