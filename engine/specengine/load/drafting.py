"""The drafters of a target: those that need nothing, and what drafts with what is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specengine.control.controller import (
    AdaptiveDraftLength,
    DraftLengthController,
    FixedDraftLength,
)
from specengine.core.drafter import Drafter
from specengine.core.errors import BackendError
from specengine.core.vocab import Vocab
from specengine.drafters.registry import DRAFTERS, ForAnswer, Parts, named, uses_own_heads
from specengine.files.compatibility import Comparison
from specengine.load.loaded_head import LoadedHead
from specengine.load.loaded_model import LoadedModel
from specengine.rules import AcceptanceRule
from specengine.sampling import Transforms

DraftMethod = str
"""`none`; the name of a drafter that needs nothing, which drafts alone; `model`: what is loaded
drafts alone; `cascade`: all that there are, and the controller chooses each round. `mtp`: the same
with the heads in the target's own file.
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
        model, head = (None, draft) if isinstance(draft, LoadedHead) else (draft, None)
        self._parts = Parts(target, model, head, vocabularies)
        self._free: dict[str, ForAnswer] = {}
        self._loaded: list[ForAnswer] = []
        for name, entry in DRAFTERS.items():
            if entry.needs == "nothing":
                self._free[name] = entry.prepare(self._parts)
            elif entry.needs == self._parts.loaded:
                self._loaded.append(entry.prepare(self._parts))

    def remember(self, texts: Iterable[Sequence[int]]) -> None:
        """Token ids of texts that the target wrote before, oldest first: lookup drafts from them.

        Ids that the target does not have are those of another model: such a text is left out.
        """
        size = self._parts.target.size
        self._parts.lookup.remember([text for text in texts if max(text, default=size) < size])

    def drafters(
        self, method: DraftMethod, transforms: Transforms, rule: AcceptanceRule
    ) -> list[Drafter]:
        """The drafters of one answer, the cheapest first. `transforms` are for draft logits.

        Raises BackendError for a method that there is not.
        """
        return [drafter for make in self._makers(method) for drafter in make(transforms, rule)]

    def _makers(self, method: DraftMethod) -> Sequence[ForAnswer]:
        if method in self._free:
            return [self._free[method]]
        if method == "cascade" or uses_own_heads(method):
            return [*self._free.values(), *self._loaded]
        if method == "model":
            return self._loaded
        if method != "none":
            methods = ", ".join(("none", *named(), "model", "cascade"))
            raise BackendError(f"nothing drafts by the method {method!r}; choose {methods}")
        return []


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
