"""A request in Anthropic's messages protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from specchat.server.request_options import MOST_SHOWN, Options
from specchat.wire.messages import Integer
from specengine.chat.chat_template import ToolCall, Turn


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore")


class Text(_Part):
    type: Literal["text"]
    text: str


class Thinking(_Part):
    type: Literal["thinking", "redacted_thinking"]
    thinking: str = ""


class ToolUse(_Part):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class ToolResult(_Part):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[Text] = ""


Part = Annotated[Text | Thinking | ToolUse | ToolResult, Field(discriminator="type")]
_PARTS = ("text", "thinking", "redacted_thinking", "tool_use", "tool_result")


class AnthropicMessage(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: Literal["user", "assistant"]
    content: str | Annotated[list[Part], Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _is_text(cls, message: Any) -> Any:
        """Images and the like are refused by their type."""
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind not in _PARTS:
                raise ValueError(f"{kind[:MOST_SHOWN]} is not supported: this server reads text")
        return message

    def turns(self) -> Iterator[Turn]:
        """Results of tools come first, as turns of their own."""
        content = self.content
        parts = [Text(type="text", text=content)] if isinstance(content, str) else content
        for part in parts:
            if isinstance(part, ToolResult):
                yield Turn("tool", _text(part.content), call_id=part.tool_use_id)
        texts = [part.text for part in parts if isinstance(part, Text)]
        calls = [part for part in parts if isinstance(part, ToolUse)]
        thoughts = [part.thinking for part in parts if isinstance(part, Thinking)]
        if texts or calls or self.role == "assistant":
            yield Turn(
                self.role,
                "".join(texts),
                reasoning="".join(thoughts) or None,
                calls=tuple(ToolCall(c.id, c.name, json.dumps(c.input)) for c in calls),
            )


class CountTokens(Options):
    """Every field has its effect. What would change the answer and is not supported is refused,
    with its name as `param`; whatever else is sent is ignored, and the answer's `notices` say so.
    """

    refused: ClassVar[dict[str, tuple[Any, ...]]] = {
        **Options.refused,
        "mcp_servers": ([],),
        "output_config": ({},),
        "output_format": (),
        "thinking": ({"type": "disabled"},),
        "tool_choice": ({"type": "auto"}, {"type": "none"}),
        "tools": ([],),
    }

    messages: list[AnthropicMessage] = Field(min_length=1)
    system: str | list[Text] = ""

    @property
    def turns(self) -> list[Turn]:
        system = [Turn("system", text)] if (text := _text(self.system)) else []
        return [*system, *(turn for message in self.messages for turn in message.turns())]


class Messages(CountTokens):
    __doc__ = CountTokens.__doc__

    max_tokens: Integer = Field(ge=1)
    stop_sequences: list[str] = Field(default_factory=list, max_length=64)


def _text(content: str | list[Text]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)
