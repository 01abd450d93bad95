"""A chat request in the OpenAI protocol: checked, with what is not supported refused by name."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from specchat.server.answer_request import AnswerRequest
from specchat.server.request_options import MOST_SHOWN, TokenReport
from specchat.wire.messages import Integer
from specengine.chat.chat_template import ToolCall, Turn


class TextPart(BaseModel):
    model_config = ConfigDict(extra="ignore")

    type: Literal["text"]
    text: str


class CalledFunction(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str
    arguments: str = "{}"


class Call(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str = ""
    function: CalledFunction


class Message(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] = ""
    tool_calls: list[Call] | None = None
    """What an assistant's message called."""
    tool_call_id: str | None = None
    """The call whose result a tool's message is."""

    @model_validator(mode="before")
    @classmethod
    def _content_is_text(cls, message: Any) -> Any:
        """An assistant's may be null or absent; images and the like are refused by their type."""
        if not isinstance(message, dict):
            return message
        content = message.get("content")
        if content is None:
            if message.get("role") != "assistant":
                raise ValueError("content is missing")
            return {name: value for name, value in message.items() if name != "content"}
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind != "text":
                raise ValueError(f"{kind[:MOST_SHOWN]} is not supported: this server reads text")
        return message

    def turn(self) -> Turn:
        calls = [ToolCall(c.id, c.function.name, c.function.arguments) for c in self.calls]
        role = "system" if self.role == "developer" else self.role
        return Turn(role, _text(self.content), calls=tuple(calls), call_id=self.tool_call_id)

    @property
    def calls(self) -> list[Call]:
        return self.tool_calls or []


class Prediction(BaseModel):
    """What the answer may say: a draft, which changes nothing of it."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["content"]
    content: str | list[TextPart]

    @property
    def text(self) -> str:
        return _text(self.content)


class ChatCompletion(AnswerRequest, TokenReport):
    __doc__ = AnswerRequest.__doc__

    refused: ClassVar[dict[str, tuple[Any, ...]]] = {
        **AnswerRequest.refused,
        "audio": (),
        "function_call": ("none", "auto"),
        "functions": ([],),
        "modalities": (["text"],),
        "reasoning_effort": ("none",),
        "tool_choice": ("none", "auto"),
        "tools": ([],),
        "verbosity": ("medium",),
        "web_search_options": (),
    }

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: Integer | None = Field(None, ge=1)
    prediction: Prediction | None = None

    @property
    def most(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def turns(self) -> list[Turn]:
        return [message.turn() for message in self.messages]


def _text(content: str | list[TextPart]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)
