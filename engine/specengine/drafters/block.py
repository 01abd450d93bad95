"""A head that drafts a whole block from the target's hidden states (DFlash, Chen et al. 2026)."""

from __future__ import annotations

from specengine.block_context import BlockContext
from specengine.cancel import AbortFlag
from specengine.controller import Offer
from specengine.draft import Draft
from specengine.drafters.drawing import draw
from specengine.drafters.model import PRIOR
from specengine.drafters.parallel import NAME
from specengine.rules import AcceptanceRule
from specengine.sampling import Transforms
from specengine.sequence import Tokens


class BlockDrafter:
    """Draws each draft token from its row of the block, after the same transforms as the target's.

    Where the head says which candidate follows which, a row depends on the token drawn before it.
    """

    name = NAME

    def __init__(
        self,
        model: str,
        context: BlockContext,
        ends: frozenset[int],
        transforms: Transforms,
        rule: AcceptanceRule,
        abort: AbortFlag | None = None,
    ) -> None:
        """`ends` are the ids that end a text. `abort` stops passes of `context`."""
        self.abort = abort
        self.notice: str | None = None
        self.context = context
        self._model = model
        self._ends = ends
        self._transforms = transforms
        self._rule = rule

    @property
    def draft_s(self) -> float:
        return self.context.decode_s

    def offer(self, prefix: Tokens) -> Offer | None:
        context = self.context
        room = min(context.n_ctx - len(prefix), context.longest)
        self.notice = None
        if room < 1:
            self.notice = (
                f"the head {self._model} has a context of {context.n_ctx} tokens, "
                "which this chat has outgrown: going on without its drafts"
            )
            return None
        start_s = context.start_seconds(prefix)
        if start_s is None:
            return None
        return Offer(self.name, room, PRIOR, start_s, together_s=context.costs.seconds)

    def propose(self, prefix: Tokens, k: int) -> Draft:
        rows = self.context.draft(prefix, k)
        return draw(rows.row, k, prefix, self._transforms, self._rule, self._ends)
