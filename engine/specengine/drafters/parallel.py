"""All draft tokens from one pass: a draft model that was trained with mask tokens (PARD, An et al.
2025).

Mask tokens after the text stand for draft tokens that nobody knows yet. The row of the last token
gives the distribution of the first draft token, the row of each mask token that of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specengine.cache.context import Context, Logits
from specengine.core.cancel import AbortFlag
from specengine.core.draft import Draft
from specengine.core.drafter import Offer, Pace
from specengine.core.tokens import Tokens, common_prefix
from specengine.drafters.bridge import Bridge
from specengine.drafters.drawing import draw
from specengine.drafters.model import PRIOR, ModelBased
from specengine.rules import AcceptanceRule
from specengine.sampling import Transforms

NAME = "parallel"


class ParallelDrafter(ModelBased):
    """Its cache follows the text: the mask tokens are the end of a text that goes on otherwise."""

    def __init__(
        self,
        model: str,
        bridge: Bridge,
        mask: int,
        context: Context,
        transforms: Transforms,
        rule: AcceptanceRule,
        abort: AbortFlag | None = None,
    ) -> None:
        """`mask` is an id of the draft model, `context` its own."""
        super().__init__(model, context, bridge.read, abort)
        self.name = NAME
        self._bridge = bridge
        self._mask = mask
        self._transforms = transforms
        self._rule = rule

    def _offer(self, missing: int, room: int) -> Offer:
        context = self.context
        start_s, beside = 0.0, missing - 1  # tokens that the cache lacks come along in the pass
        if beside > context.max_rows:
            start_s, beside = context.costs.prompt_seconds(beside), 0
        return Offer(
            self.name,
            min(room, context.max_rows),
            PRIOR,
            start_s,
            together_s=lambda k: context.pass_seconds(beside + k),
        )

    def _proposal(self, prefix: Tokens, k: int, pace: Pace | None) -> Draft:
        masks = np.full(k - 1, self._mask, dtype=np.int32)
        tokens = np.concatenate((self.read(prefix), masks))
        missing = len(tokens) - common_prefix(self.context.tokens, tokens)
        width = self.context.cheapest_width(max(missing, k))
        rows = self.context.logits(tokens, last=k, width=width)

        def row(drafted: Sequence[int]) -> Logits:
            return self._bridge.row(rows[len(drafted)])

        return draw(row, k, prefix, self._transforms, self._rule, self._bridge.ends)
