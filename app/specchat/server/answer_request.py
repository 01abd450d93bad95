"""What every request for an answer may have in the OpenAI protocol."""

from __future__ import annotations

import json
import secrets
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator

from specchat.models.registry import Profile
from specchat.server.refusal import Refusal
from specchat.wire.messages import Integer, Sampling
from specengine.sampling import SamplingParams
from specengine.sampling.grammar import MAX_BYTES

MOST_SHOWN = 80
"""Characters of a name that nobody here knows."""

_INSTEAD = {"repetition_penalty": ": use repeat_penalty"}
_UNSET_BY_MINUS_1 = ("max_completion_tokens", "max_tokens", "seed")  # as llama-server has it
_MOST_NOTICES = 20


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: StrictBool | None = None


class NamedSchema(BaseModel):
    model_config = ConfigDict(extra="ignore")

    schema_: dict[str, Any] = Field(alias="schema")


class ResponseFormat(BaseModel):
    """What an answer has to be: any text, a JSON object, or what a schema describes.

    The schema is a part of `json_schema`, as OpenAI has it, or lies beside the type as
    llama-server's does.
    """

    model_config = ConfigDict(extra="ignore")

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")

    @model_validator(mode="after")
    def _schema_is_there(self) -> Self:
        if self.type == "json_schema" and self.json_schema is None and self.schema_ is None:
            raise ValueError("json_schema.schema is missing")
        return self

    @property
    def grammar(self) -> str | None:
        """As an answer's grammar; None where any text will do."""
        if self.type == "text":
            return None
        schema = self.json_schema.schema_ if self.json_schema is not None else self.schema_
        return json.dumps({"type": "object"} if schema is None else schema)


class AnswerRequest(Sampling):
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
    stream_options: StreamOptions = StreamOptions()
    max_tokens: Integer | None = Field(None, ge=1)
    stop: str | Annotated[list[str], Field(max_length=64)] | None = None
    n: Integer = Field(1, ge=1, le=128)
    """Answers, the first of which is that of a request for one."""
    response_format: ResponseFormat | None = None
    json_schema: dict[str, Any] | None = None
    """A schema for the answer, as llama-server takes it."""
    grammar: str | None = Field(None, max_length=MAX_BYTES)
    """GBNF or Lark, for the answer."""

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

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if sum(bool(f) for f in (self._format, self.json_schema, self.grammar)) > 1:
            raise ValueError("response_format, json_schema and grammar exclude each other")
        return self

    @property
    def _format(self) -> str | None:
        return None if self.response_format is None else self.response_format.grammar

    @property
    def form(self) -> str | None:
        """What the answer has to follow, None where any text will do."""
        schema = json.dumps(self.json_schema) if self.json_schema else None
        return self._format or schema or self.grammar or None

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

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
