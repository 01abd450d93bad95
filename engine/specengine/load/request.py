"""What is asked of one answer: every option of it, once."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from specengine.core.limits import MAX_DRAFT, MAX_LOGPROBS
from specengine.load.drafting import DraftMethod
from specengine.sampling import SamplingParams

_DraftLength = Annotated[int, Field(ge=0, le=MAX_DRAFT)]


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class AnswerRequest:
    """An answer as it is wanted; None leaves the choice to the engine.

    Raises ValidationError for a value out of its range.
    """

    sampling: SamplingParams = Field(default_factory=SamplingParams)
    """How each token is drawn."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens after which it ends, at the latest; None: as many as the context has room for."""
    stop: tuple[str, ...] = ()
    """Texts before which it ends."""
    rule: str | None = None
    """The acceptance rule, by its name in `rules.RULES`; None: the one that suits `sampling`."""
    drafting: bool = True
    """Whether anything is drafted; else the target writes alone."""
    drafter: DraftMethod | None = None
    """What drafts, in place of the method that the models were loaded for."""
    draft_max: _DraftLength | None = None
    """The longest draft of a round, in tokens; None: MAX_DRAFT."""
    draft_length: _DraftLength | None = None
    """The fixed length of drafts, as `with_length` says; None: chosen for each round."""
    reproducible: bool = False
    """Make the text independent of drafter and draft length, bit for bit, where the build allows
    it: see `Pair.width_step`.
    """
    logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    """How many alternatives to report with each token's log-probability; None: no report."""
    grammar: str | None = None
    """GBNF that the answer must follow."""
    raw: bool = False
    """The prompt is not of the chat template: whatever comes is the answer, thoughts too."""

    @property
    def longest_draft(self) -> int:
        """The longest draft of a round, in tokens."""
        return MAX_DRAFT if self.draft_max is None else self.draft_max

    def method(self, loaded: DraftMethod) -> DraftMethod:
        """What drafts, where the models were loaded for the method `loaded`."""
        return (self.drafter or loaded) if self.drafting else "none"
