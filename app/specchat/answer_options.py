"""What can be asked of one answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from specengine.chat.unverified import Begun
from specengine.drafting import DraftMethod
from specengine.pair import MAX_DRAFT
from specengine.sampling import SamplingParams


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """What a person may ask of one answer; None leaves the choice to the engine."""

    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    rule: str | None = None
    draft_max: int = MAX_DRAFT
    draft_length: int | None = None
    drafting: bool = True
    drafter: DraftMethod | None = None
    raw: bool = False
    reproducible: bool = False
    logprobs: int | None = None
    grammar: str | None = None
    """GBNF that the answer must follow."""
    inspect: bool = False
    """Report every round, before the Chunk that it gave; only a target on this machine can."""
    chat_id: int | None = None
    """The chat that the question belongs to: what is kept of its cache is used."""
    begun: Begun | None = None
    """Verify this answer and go on with it; only a target on a verify server can."""
