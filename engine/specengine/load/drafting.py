"""The drafters of a target: lookup, and a draft model or head where one is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from specengine.control.controller import (
    AdaptiveDraftLength,
    DraftLengthController,
    FixedDraftLength,
)
from specengine.core.drafter import Drafter
from specengine.core.vocab import Vocab
from specengine.drafters.bridge import Bridge, SameIds, TokenIntersection
from specengine.drafters.lookup import LookupDrafter
from specengine.drafters.model import ModelDrafter
from specengine.drafters.parallel import ParallelDrafter
from specengine.drafters.text import TextDrafter
from specengine.drafters.translation import SharedTokens, Translation
from specengine.files.compatibility import Comparison
from specengine.load.loaded_head import LoadedHead
from specengine.rules import AcceptanceRule
from specengine.sampling import Transforms

if TYPE_CHECKING:
    from specengine.load.loaded_model import LoadedModel

DraftMethod = Literal["none", "lookup", "model", "cascade", "mtp"]
"""`cascade`: lookup and, where a draft model is loaded, that; the controller chooses each round.
`mtp`: the same with the heads in the target's own file.
"""


class Drafting:
    """Makes the drafters of each answer, and keeps what they know from one to the next."""

    def __init__(
        self,
        target: Vocab,
        draft: LoadedModel | LoadedHead | None = None,
        vocabularies: Comparison | None = None,
    ) -> None:
        """`vocabularies`: how those of the two compare; equal, where it is None."""
        self._target = target
        self._lookup = LookupDrafter()
        self._make = None if draft is None else _maker(target, draft, vocabularies)

    def remember(self, texts: Iterable[Sequence[int]]) -> None:
        """Token ids of texts that the target wrote before, oldest first: lookup drafts from them.

        Ids that the target does not have are those of another model: such a text is left out.
        """
        size = self._target.size
        self._lookup.remember([text for text in texts if max(text, default=size) < size])

    def drafters(
        self, method: DraftMethod, transforms: Transforms, rule: AcceptanceRule
    ) -> list[Drafter]:
        """The drafters of one answer, the cheapest first. `transforms` are for draft logits."""
        drafters: list[Drafter] = []
        if method in ("lookup", "cascade", "mtp"):
            drafters.append(self._lookup)
        if self._make is not None and method in ("model", "cascade", "mtp"):
            drafters.extend(self._make(transforms, rule))
        return drafters


def with_length(
    drafters: Sequence[Drafter],
    adaptive: AdaptiveDraftLength,
    draft_length: int | None,
    draft_max: int,
) -> tuple[Sequence[Drafter], DraftLengthController]:
    """Which of `drafters` draft in an answer, and what decides how many tokens.

    With a fixed `draft_length` nothing is chosen: the last drafter, which is the draft model where
    there is one, drafts alone. Otherwise `adaptive` chooses among all of them.
    """
    if draft_length is None:
        return drafters, adaptive
    return drafters[-1:], FixedDraftLength(min(draft_length, draft_max))


def _maker(
    target: Vocab, draft: LoadedModel | LoadedHead, vocabularies: Comparison | None
) -> Callable[[Transforms, AcceptanceRule], list[Drafter]]:
    """What makes the draft model's drafters for an answer."""
    if isinstance(draft, LoadedHead):
        return lambda transforms, rule: [draft.drafter(transforms, rule)]
    name, vocab, context, abort = draft.name, draft.vocab, draft.context, draft.abort
    way = "ids" if vocabularies is None else vocabularies.way
    if way == "text":
        translation = Translation(target, vocab, SharedTokens(target, vocab))
        return lambda *_: [TextDrafter(name, target, vocab, context, translation, abort)]
    bridge: Bridge
    if way == "tokens":
        bridge = TokenIntersection(target, vocab, SharedTokens(target, vocab))
    else:
        smaller = min(target.size, vocab.size)
        bridge = SameIds(vocab, smaller if vocabularies is None else vocabularies.n_shared)
    mask = draft.mask_token

    def make(transforms: Transforms, rule: AcceptanceRule) -> list[Drafter]:
        drafters: list[Drafter] = [ModelDrafter(name, bridge, context, transforms, rule, abort)]
        if mask is not None:
            # Some vocabularies have a mask token that the model was never trained with: which of
            # the two pays is for the controller to learn.
            drafters.append(ParallelDrafter(name, bridge, mask, context, transforms, rule, abort))
        return drafters

    return make
