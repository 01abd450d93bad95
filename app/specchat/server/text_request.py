"""A request for a completion of text in the OpenAI protocol."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from specchat.server.answer_request import AnswerRequest
from specchat.wire.messages import Integer, TokenId
from specengine.core.limits import MAX_LOGPROBS

_Ids = Annotated[list[TokenId], Field(min_length=1)]


class TextCompletion(AnswerRequest):
    __doc__ = AnswerRequest.__doc__

    refused: ClassVar[dict[str, tuple[Any, ...]]] = {
        **AnswerRequest.refused,
        "best_of": (1,),
        "echo": (False,),
        "suffix": ("",),
    }

    prompt: str | _Ids | Annotated[list[str | _Ids], Field(min_length=1, max_length=128)]
    """Text, in which control tokens are believed, or token ids; several: an answer to each."""
    max_tokens: Integer | None = Field(16, ge=1)
    logprobs: Integer | None = Field(None, ge=0, le=MAX_LOGPROBS)
    """Alternatives to tell with the log-probability of each token."""

    @property
    def prompts(self) -> list[str | list[int]]:
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        ids = [part for part in prompt if isinstance(part, int)]
        return [ids] if ids else [part for part in prompt if not isinstance(part, int)]
