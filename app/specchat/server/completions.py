"""The OpenAI protocol, for programs that know no other: `/v1/models`, `/v1/chat/completions`."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from specchat.server.answer_stream import AnswerStream
from specchat.server.bodies import read_message
from specchat.server.messages import Integer, Real
from specchat.server.refusal import Refusal
from specchat.server.service import Service
from specchat.server.sessions import Answer, Session
from specengine.chat.answer_text import AnswerText
from specengine.chat.chat_template import Turn, encode_chat
from specengine.errors import TemplateError
from specengine.sampling import SamplingParams
from specengine.sampling.params import MOST
from specengine.serving.generation import Committed, Generation
from specengine.serving.transcript import Transcript


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


class ChatCompletion(BaseModel):
    """The part of the request that means something to this server; the rest is ignored."""

    model_config = ConfigDict(extra="ignore")

    messages: list[Message] = Field(min_length=1)
    model: str | None = None
    stream: StrictBool = False
    stream_options: StreamOptions = StreamOptions()
    max_tokens: Integer | None = Field(None, ge=1)
    max_completion_tokens: Integer | None = Field(None, ge=1)
    stop: str | list[str] | None = None
    temperature: Real = Field(0.8, ge=0, allow_inf_nan=False)
    top_p: Real = Field(0.95, ge=0, le=1)
    frequency_penalty: Real = Field(0.0, ge=-MOST, le=MOST, allow_inf_nan=False)
    presence_penalty: Real = Field(0.0, ge=-MOST, le=MOST, allow_inf_nan=False)
    seed: Integer | None = Field(None, ge=0, lt=2**64)

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    def sampling(self) -> SamplingParams:
        return SamplingParams(
            temperature=self.temperature,
            top_p=self.top_p,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            seed=secrets.randbits(63) if self.seed is None else self.seed,
        )


class CompletionHandlers:
    """Each request is a session of its own, which ends with it."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def models(self, request: Request) -> Response:
        model = {"id": self._service.name, "object": "model", "owned_by": "specchat", "created": 0}
        return JSONResponse({"object": "list", "data": [model]})

    async def create(self, request: Request) -> Response:
        service = self._service
        wanted = await read_message(request, ChatCompletion, limit=service.limits.body)
        prompt = await asyncio.to_thread(self._encode, wanted)
        if len(prompt) >= service.model.n_ctx:
            message = f"{len(prompt)} tokens leave no room for an answer in {service.model.n_ctx}"
            raise Refusal(413, "context", message)
        if service.model.scheduler.load.waiting >= service.limits.waiting:
            raise Refusal(429, "busy", "too many answers wait", headers={"Retry-After": "2"})
        session = service.sessions.create(request.state.owner)
        completion = _Completion(service, session, wanted, prompt)
        if wanted.stream:
            return AnswerStream(
                completion.stream(), media_type="text/event-stream", end=completion.close
            )
        try:
            async for _ in completion.texts():
                if await request.is_disconnected():
                    raise ClientDisconnect
            return JSONResponse(completion.whole())
        finally:
            completion.close()

    def _encode(self, wanted: ChatCompletion) -> list[int]:
        turns = [message.turn() for message in wanted.messages]
        try:
            return encode_chat(self._service.model.chat_template, turns, self._service.model.vocab)
        except TemplateError as error:
            raise Refusal(400, "template", str(error)) from None


class _Completion:
    """One answer to the OpenAI protocol."""

    def __init__(
        self, service: Service, session: Session, wanted: ChatCompletion, prompt: list[int]
    ) -> None:
        self._service = service
        self._session = session
        self._wanted = wanted
        self._prompt = prompt
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._text = AnswerText(service.model.vocab, wanted.stops)
        self._reason = "stop"

    async def texts(self) -> AsyncIterator[str]:
        """Complete characters as they come; `whole` tells the rest afterwards."""
        answer = self._begin()
        while True:
            event, _ = await answer.events.get()
            if isinstance(event, Committed):
                for token in event.tokens:
                    if text := self._text.add(token):
                        yield text
                    if self._text.stopped:
                        return
            else:
                self._reason = "length" if event.reason == "length" else "stop"
                if event.reason in ("error", "shutdown"):
                    raise Refusal(503, event.reason, event.error or "the server is closing")
                break
        if rest := self._text.finish(cut=event.reason != "stop"):
            yield rest

    def close(self) -> None:
        """End the session, and with it an answer that is still under way."""
        self._service.sessions.delete(self._session)

    async def stream(self) -> AsyncIterator[bytes]:
        """Server-sent events."""
        yield self._event({"role": "assistant", "content": ""})
        try:
            async for text in self.texts():
                yield self._event({"content": text})
        except Refusal as refusal:
            yield _sse(refusal.body)
            return
        yield self._event({}, self._reason)
        if self._wanted.stream_options.include_usage:
            yield _sse({**self._head("chat.completion.chunk"), "choices": [], **self._usage()})
        yield b"data: [DONE]\n\n"

    def whole(self) -> dict[str, Any]:
        message = {"role": "assistant", "content": self._text.text}
        choice = {"index": 0, "message": message, "finish_reason": self._reason}
        return {**self._head("chat.completion"), "choices": [choice], **self._usage()}

    def _begin(self) -> Answer:
        wanted, room = self._wanted, self._service.model.n_ctx - len(self._prompt)
        most = wanted.max_completion_tokens or wanted.max_tokens or room
        answer = self._session.begin(
            lambda on_event: Generation(
                self._session.id,
                Transcript(self._prompt),
                wanted.sampling(),
                on_event,
                max_tokens=min(most, room),
            ),
            self._service.model.scheduler.cancel,
        )
        self._service.model.scheduler.submit(answer.generation)
        return answer

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._service.name,
        }

    def _event(self, delta: dict[str, str], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _sse({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _usage(self) -> dict[str, Any]:
        n, m = len(self._prompt), self._text.committed
        usage = {"prompt_tokens": n, "completion_tokens": m, "total_tokens": n + m}
        return {"usage": usage}


def _sse(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, ensure_ascii=False).encode() + b"\n\n"
