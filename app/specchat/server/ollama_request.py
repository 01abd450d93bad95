"""Requests in Ollama's protocol."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, field_validator, model_validator

from specchat.server.request_options import Options, TokenReport
from specchat.wire.messages import Integer
from specengine.chat.chat_template import ToolCall, Turn

_NO_LIMIT = 2**31 - 1


class CalledTool(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class OllamaCall(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str = ""
    function: CalledTool


class OllamaMessage(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[OllamaCall] | None = None
    tool_call_id: str | None = None
    images: list[Any] | None = None

    @field_validator("images")
    @classmethod
    def _no_images(cls, images: list[Any] | None) -> None:
        if images:
            raise ValueError("not supported: this server reads text")

    def turn(self) -> Turn:
        calls = [
            ToolCall(call.id, call.function.name, json.dumps(call.function.arguments))
            for call in self.tool_calls or ()
        ]
        return Turn(
            self.role,
            self.content or "",
            reasoning=self.thinking,
            calls=tuple(calls),
            call_id=self.tool_call_id,
        )


class _OllamaRequest(Options, TokenReport):
    """Its `options` are fields like the others."""

    refused: ClassVar[dict[str, tuple[Any, ...]]] = {
        **Options.refused,
        "think": (False,),
        "tfs_z": (1,),
        "tools": ([],),
    }

    stream: StrictBool = True
    format: Literal["", "json"] | dict[str, Any] = ""
    """What the answer has to be: any text, a JSON object, or what a schema describes."""
    num_predict: Integer = Field(-1, ge=-2)
    """Most tokens of the answer; below 0: until the context is full."""
    stop: str | Annotated[list[str], Field(max_length=64)] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _options_are_fields(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        fields = {name: value for name, value in body.items() if name != "options"}
        options = body.get("options") or {}
        if not isinstance(options, dict):
            raise ValueError("options must be an object")
        if options.get("repeat_last_n") == -1:
            options = {**options, "repeat_last_n": _NO_LIMIT}
        if isinstance(name := fields.get("model"), str):
            fields["model"] = name.removesuffix(":latest")
        return {**options, **fields}

    @property
    def most(self) -> int | None:
        return self.num_predict if self.num_predict > 0 else None

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop

    @property
    def form(self) -> str | None:
        """As an answer's grammar; None where any text will do."""
        if not self.format:
            return None
        return json.dumps({"type": "object"} if self.format == "json" else self.format)


class OllamaChat(_OllamaRequest):
    messages: list[OllamaMessage] = Field(default_factory=list)
    """Without any, the model is only made ready, as it is at any time here."""

    @property
    def turns(self) -> list[Turn]:
        return [message.turn() for message in self.messages]


class OllamaGenerate(_OllamaRequest):
    refused: ClassVar[dict[str, tuple[Any, ...]]] = {
        **_OllamaRequest.refused,
        "context": ([],),
        "images": ([],),
        "suffix": ("",),
        "template": ("",),
    }

    prompt: str = ""
    """As `messages` of a chat."""
    system: str = ""
    raw: StrictBool = False
    """Whether the prompt has the chat template's tokens itself."""

    @property
    def turns(self) -> list[Turn]:
        system = [Turn("system", self.system)] if self.system else []
        return [*system, Turn("user", self.prompt)] if self.prompt else []


class OllamaShow(BaseModel):
    model_config = ConfigDict(extra="ignore")

    model: str | None = None
