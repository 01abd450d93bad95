"""What can be asked of one answer."""

from __future__ import annotations

from dataclasses import fields

from pydantic.dataclasses import dataclass

from specengine.core.think import Think
from specengine.load.request import AnswerRequest
from specengine.sampling import SamplingParams
from specengine.stream.unverified import PartialAnswer

WHERE_POSSIBLE = frozenset({"inspect", "chat_id", "begun"})
"""Options of `AnswerOptions` that no person sets: a back-end without them leaves them aside."""


@dataclass(frozen=True, slots=True)
class AnswerOptions(AnswerRequest):
    """What a person may ask of one answer: of the engine, and beyond what the engine knows."""

    think: Think | None = None
    """Whether to think before the answer, and how hard; None: as the model's template has it."""
    inspect: bool = False
    """Report every round, before the Chunk that it gave; only a target on this machine can."""
    chat_id: int | None = None
    """The chat that the question belongs to: what is kept of its cache is used."""
    begun: PartialAnswer | None = None
    """Verify this answer and go on with it; only a target on a verify server can."""

    @property
    def given(self) -> frozenset[str]:
        """Names of the options that a person has set, those of sampling included: those that are
        not as they are by default.
        """
        default = AnswerOptions()
        own = {f.name for f in fields(self) if getattr(self, f.name) != getattr(default, f.name)}
        sampling = {
            name
            for name in SamplingParams.model_fields
            if getattr(self.sampling, name) != getattr(default.sampling, name)
        }
        if not sampling & _PENALTIES:
            sampling.discard("repeat_last_n")  # of which nothing comes
        return frozenset(own - WHERE_POSSIBLE - {"sampling"} | sampling)


_PENALTIES = frozenset({"repeat_penalty", "frequency_penalty", "presence_penalty"})
