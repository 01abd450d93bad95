"""Options of a request for an answer, whatever its protocol: set, refused by name, or ignored."""

from __future__ import annotations

import secrets
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator

from specchat.models.registry import Profile
from specchat.server.refusal import Refusal
from specchat.wire.messages import Integer, Sampling
from specengine.core.limits import MAX_LOGPROBS
from specengine.sampling import SamplingParams

MOST_SHOWN = 80
"""Characters of a name that nobody here knows."""

_INSTEAD = {"repetition_penalty": ": use repeat_penalty"}
_UNSET_BY_MINUS_1 = ("max_completion_tokens", "max_tokens", "seed")  # as llama-server has it
_MOST_NOTICES = 20


class Options(Sampling):
    """Every field has its effect. What would change the answer and is not supported is refused,
    with its name as `param`; whatever else is sent is ignored, and the answer's `notices` say so.
    """

    model_config = ConfigDict(extra="allow")

    refused: ClassVar[dict[str, tuple[Any, ...]]] = {"mirostat": (0,), "repetition_penalty": (1,)}
    """Options that would change the answer and are not supported, with the values that ask for
    nothing.
    """

    model: str | None = None
    stream: StrictBool = False

    @model_validator(mode="before")
    @classmethod
    def _null_is_not_given(cls, body: Any) -> Any:
        if isinstance(body, dict):
            return {
                name: value
                for name, value in body.items()
                if value is not None and not (value == -1 and name in _UNSET_BY_MINUS_1)
            }
        return body

    def sampling(self, profile: Profile | None) -> SamplingParams:
        """With a seed; what is not set is as the profile has it."""
        set_here = self.model_dump(include=set(SamplingParams.model_fields) & self.model_fields_set)
        theirs = {} if profile is None else profile.sampling.model_dump(exclude_unset=True)
        return SamplingParams(**{"seed": secrets.randbits(63), **theirs, **set_here})

    def check(self, model: str) -> list[str]:
        """What is to be said about options that change nothing, `model` being the one there is.
        Raises Refusal, 400, that names the first of those that cannot be had.
        """
        notices = []
        for name, value in (self.model_extra or {}).items():
            inert = self.refused.get(name)
            if inert is None:
                notices.append(f"{name[:MOST_SHOWN]}: ignored, this server does not know it")
            elif value not in inert:
                raise Refusal(
                    400,
                    "unsupported",
                    f"{name} is not supported by this server{_INSTEAD.get(name, '')}",
                    param=name,
                )
        if more := len(notices[_MOST_NOTICES:]):
            notices[_MOST_NOTICES:] = [f"{more} more options are ignored"]
        if self.model not in (None, model):
            notices.append(f"model: this server has only {model}, which answers")
        return notices


class TokenReport(BaseModel):
    """What to tell of each token of the answer."""

    logprobs: StrictBool = False
    top_logprobs: Integer = Field(0, ge=0, le=MAX_LOGPROBS)
    """Alternatives to tell with the log-probability of each token."""

    @property
    def alternatives(self) -> int | None:
        """As an answer's logprobs; None where none are asked for."""
        return self.top_logprobs if self.logprobs or self.top_logprobs else None
