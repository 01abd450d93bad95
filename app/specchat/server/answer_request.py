"""What every request for an answer may have in the OpenAI protocol."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator

from specchat.server.request_options import Options
from specchat.wire.messages import Integer
from specengine.sampling.grammar import MAX_BYTES


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


class AnswerRequest(Options):
    __doc__ = Options.__doc__

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
