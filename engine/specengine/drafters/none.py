"""No draft: the target alone."""

from __future__ import annotations

from specengine.draft import Draft
from specengine.sequence import Tokens


class NoDrafter:
    name = "none"
    draft_s = 0.0
    notice: str | None = None

    def propose(self, prefix: Tokens, k: int) -> Draft:
        return Draft()
