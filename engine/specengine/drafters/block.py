"""A head that drafts a whole block from the target's hidden states (DFlash, Chen et al. 2026)."""

from __future__ import annotations

from specengine.cache.block_context import BlockContext
from specengine.core.draft import Draft
from specengine.core.drafter import Offer
from specengine.core.tokens import Tokens
from specengine.drafters.drawing import draw
from specengine.drafters.head_based import HeadBased
from specengine.drafters.model import PRIOR
from specengine.drafters.parallel import NAME


class BlockDrafter(HeadBased[BlockContext]):
    """Draws each draft token from its row of the block, after the same transforms as the target's.

    Where the head says which candidate follows which, a row depends on the token drawn before it.
    """

    name = NAME

    def _offer(self, prefix: Tokens, room: int) -> Offer | None:
        start_s = self.context.start_seconds(prefix)
        if start_s is None:
            return None
        return Offer(self.name, room, PRIOR, start_s, together_s=self.context.costs.seconds)

    def propose(self, prefix: Tokens, k: int) -> Draft:
        rows = self.context.draft(prefix, k)
        return draw(rows.row, k, prefix, self._transforms, self._rule, self._ends)
