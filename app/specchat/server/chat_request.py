"""A chat request in the OpenAI protocol: checked, with what is not supported refused by name."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator

from specchat.models.registry import Profile
from specchat.server.refusal import Refusal
from specchat.wire.messages import Integer, Sampling
from specengine.chat.chat_template import Turn
from specengine.sampling import SamplingParams

# Options that would change the answer and are not supported, with the values that ask for nothing.
_REFUSED: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "grammar": ("",),
    "json_schema": ({},),
    "logprobs": (False,),
    "mirostat": (0,),
    "modalities": (["text"],),
    "n": (1,),
    "reasoning_effort": ("none",),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "verbosity": ("medium",),
    "web_search_options": (),
}
_INSTEAD = {"repetition_penalty": ": use repeat_penalty"}
_MOST_SHOWN = 80  # characters of a name that nobody here knows
_MOST_NOTICES = 20


class TextPart(BaseModel):
    model_config = ConfigDict(extra="ignore")

    type: Literal["text"]
    text: str


class Message(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]

    def turn(self) -> Turn:
        content = self.content
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        return Turn("system" if self.role == "developer" else self.role, text)


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: StrictBool = False


class ChatCompletion(Sampling):
    """Every field has its effect. What would change the answer and is not supported is refused,
    with its name as `param`; whatever else is sent is ignored, and the answer's `notices` say so.
    """

    model_config = ConfigDict(extra="allow")

    messages: list[Message] = Field(min_length=1)
    model: str | None = None
    stream: StrictBool = False
    stream_options: StreamOptions = StreamOptions()
    max_tokens: Integer | None = Field(None, ge=1)
    max_completion_tokens: Integer | None = Field(None, ge=1)
    stop: str | Annotated[list[str], Field(max_length=64)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _null_is_not_given(cls, body: Any) -> Any:
        if isinstance(body, dict):
            return {name: value for name, value in body.items() if value is not None}
        return body

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    def turns(self, profile: Profile | None) -> list[Turn]:
        """The messages, after the profile's system message where they have none."""
        turns = [message.turn() for message in self.messages]
        if profile is None or profile.system is None or any(t.role == "system" for t in turns):
            return turns
        return [Turn("system", profile.system), *turns]

    def sampling(self, profile: Profile | None) -> SamplingParams:
        """With a seed; what is not set is as the profile has it."""
        set_here = self.model_dump(include=set(SamplingParams.model_fields) & self.model_fields_set)
        theirs = {} if profile is None else profile.sampling.model_dump(exclude_unset=True)
        return SamplingParams(**{"seed": secrets.randbits(63), **theirs, **set_here})

    def check(self) -> list[str]:
        """What is to be said about options that change nothing. Raises Refusal, 400, that names
        the first of those that cannot be had.
        """
        notices = []
        for name, value in (self.model_extra or {}).items():
            inert = _REFUSED.get(name)
            if inert is None:
                notices.append(f"{name[:_MOST_SHOWN]}: ignored, this server does not know it")
            elif value not in inert:
                raise Refusal(
                    400,
                    "unsupported",
                    f"{name} is not supported by this server{_INSTEAD.get(name, '')}",
                    type="invalid_request_error",
                    param=name,
                )
        if more := len(notices[_MOST_NOTICES:]):
            notices[_MOST_NOTICES:] = [f"{more} more options are ignored"]
        return notices
