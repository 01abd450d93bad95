"""Every drafter there is: what it needs beside the target, and how it is made for an answer.

A new one is a file, and a line in `DRAFTERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from specengine.cache.block_context import BlockContext
from specengine.cache.context import Context
from specengine.cache.head_context import HeadContext
from specengine.core.cancel import AbortFlag
from specengine.core.drafter import Drafter
from specengine.core.vocab import Vocab
from specengine.drafters.block import BlockDrafter
from specengine.drafters.bridge import Bridge, SameIds, TokenIntersection
from specengine.drafters.head import HeadDrafter
from specengine.drafters.lookup import LookupDrafter
from specengine.drafters.model import ModelDrafter
from specengine.drafters.parallel import ParallelDrafter
from specengine.drafters.text import TextDrafter
from specengine.drafters.translation import SharedTokens, Translation
from specengine.files.compatibility import Comparison
from specengine.rules import AcceptanceRule
from specengine.sampling import Transforms

Needs = Literal["nothing", "model", "head", "own heads"]
"""What is to be loaded beside the target: a draft model, a head, the heads in its own file."""

ForAnswer = Callable[[Transforms, AcceptanceRule], Sequence[Drafter]]
"""The drafters of one answer; the transforms are for draft logits."""


class DraftModel(Protocol):
    """A draft model, loaded."""

    @property
    def name(self) -> str: ...
    @property
    def vocab(self) -> Vocab: ...
    @property
    def context(self) -> Context: ...
    @property
    def abort(self) -> AbortFlag: ...
    @property
    def mask_token(self) -> int | None: ...


class Head(Protocol):
    """A head, loaded; `path` is None for those in the target's own file."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path | None: ...
    @property
    def context(self) -> HeadContext | BlockContext: ...
    @property
    def abort(self) -> AbortFlag: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What the drafters beside one target are made of."""

    target: Vocab
    model: DraftModel | None = None
    head: Head | None = None
    vocabularies: Comparison | None = None
    """How those of target and draft model compare; equal, where it is None."""
    lookup: LookupDrafter = field(default_factory=LookupDrafter)

    @property
    def loaded(self) -> Needs:
        """What there is beside the target."""
        if self.head is not None:
            return "own heads" if self.head.path is None else "head"
        return "nothing" if self.model is None else "model"


@dataclass(frozen=True, slots=True)
class Entry:
    """A drafter of the registry."""

    needs: Needs
    prepare: Callable[[Parts], ForAnswer]
    """Called once, when the parts are loaded."""


def kept(make: Callable[[Parts], Drafter]) -> Entry:
    """A drafter that needs nothing: made once, it drafts in all answers."""

    def prepare(parts: Parts) -> ForAnswer:
        drafters = [make(parts)]
        return lambda transforms, rule: drafters

    return Entry("nothing", prepare)


def _model(parts: Parts) -> ForAnswer:
    """A draft model, token by token or in one pass; through text where its vocabulary asks it."""
    target, draft, vocabularies = parts.target, parts.model, parts.vocabularies
    assert draft is not None
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


def _head(parts: Parts) -> ForAnswer:
    """A head that goes on from the target's hidden states."""
    head, ends = parts.head, parts.target.eog
    assert head is not None
    name, context, abort = head.name, head.context, head.abort
    if isinstance(context, BlockContext):
        return lambda transforms, rule: [BlockDrafter(name, context, ends, transforms, rule, abort)]
    return lambda transforms, rule: [HeadDrafter(name, context, ends, transforms, rule, abort)]


DRAFTERS: dict[str, Entry] = {
    "lookup": kept(lambda parts: parts.lookup),
    "model": Entry("model", _model),
    "head": Entry("head", _head),
    "mtp": Entry("own heads", _head),
}
"""By name, the cheapest first. `cascade` is all of them that have what they need."""


def named() -> list[str]:
    """Names that a person can give, since they say all: a model or a head is named by its own."""
    return [name for name, entry in DRAFTERS.items() if entry.needs in ("nothing", "own heads")]


def uses_own_heads(name: str | None) -> bool:
    """Whether the drafter of this name needs the heads in the target's own file."""
    return name in DRAFTERS and DRAFTERS[name].needs == "own heads"
