"""The OpenAI protocol, for programs that know no other: `/v1/models`, `/v1/chat/completions`."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from specchat.server.answer_stream import AnswerStream
from specchat.server.bodies import check_ids
from specchat.server.chat_request import ChatCompletion
from specchat.server.refusal import Refusal
from specchat.server.service import Service
from specchat.server.sessions import Session
from specengine.chat.answer_text import AnswerText
from specengine.chat.chat_template import encode_chat
from specengine.core.errors import TemplateError
from specengine.sampling import SamplingParams
from specengine.sampling.grammar import Grammar
from specengine.stream.committed import Committed
from specengine.stream.transcript import Transcript

_SILENCE = b": still here\n\n"  # a comment, so that nothing on the way closes the connection


class CompletionHandlers:
    """Each request is a session of its own, which ends with it."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        if request.path_params["name"] != self._service.name:
            message = f"there is no such model: this server has {self._service.name}"
            raise Refusal(404, "model_not_found", message, param="model")
        return JSONResponse(self._model())

    def _model(self) -> dict[str, Any]:
        return {"id": self._service.name, "object": "model", "owned_by": "specchat", "created": 0}

    async def create(self, request: Request) -> Response:
        service = self._service
        wanted = await service.read(request, ChatCompletion)
        notices, sampling = wanted.check(), wanted.sampling(service.profile)
        if wanted.model not in (None, service.name):
            notices.append(f"model: this server has only {service.name}, which answers")
        check_ids(list(sampling.logit_bias), service.model.vocab.size, "logit_bias")
        prompt = await asyncio.to_thread(self._encode, wanted)
        self._check_room(len(prompt))
        service.require_place()
        form = wanted.form
        grammar = None if form is None else await service.grammar(form, len(prompt))
        session = service.sessions.create(request.state.owner)
        completion = _Completion(service, session, wanted, sampling, prompt, grammar, notices)
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

    def _check_room(self, n: int) -> None:
        """Raises Refusal, 400, in the words that clients look for, where `n` tokens fill all."""
        if n >= (n_ctx := self._service.model.n_ctx):
            message = (
                f"This model's maximum context length is {n_ctx} tokens. However, your messages "
                f"resulted in {n} tokens, which leaves no room for an answer."
            )
            raise Refusal(400, "context_length_exceeded", message, param="messages")

    def _encode(self, wanted: ChatCompletion) -> list[int]:
        """A last message of the assistant is the beginning of its answer."""
        turns, model, begun = wanted.turns(self._service.profile), self._service.model, ""
        if turns[-1].role == "assistant" and not turns[-1].calls:
            begun = turns.pop().text
        try:
            return encode_chat(model.chat_template, turns, model.vocab, begun=begun)
        except TemplateError as error:
            raise Refusal(400, "template", str(error), param="messages") from None


class _Completion:
    """One answer to the OpenAI protocol."""

    def __init__(
        self,
        service: Service,
        session: Session,
        wanted: ChatCompletion,
        sampling: SamplingParams,
        prompt: list[int],
        grammar: Grammar | None,
        notices: list[str],
    ) -> None:
        self._service = service
        self._session = session
        session.connections += 1  # until it is closed
        self._wanted = wanted
        self._sampling = sampling
        self._prompt = prompt
        self._grammar = grammar
        self._notices = {"notices": notices} if notices else {}
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._text = AnswerText(service.model.vocab, wanted.stops)
        self._reason = "stop"

    async def texts(self) -> AsyncIterator[str]:
        """Complete characters as they come, and "" after a while without any; `whole` tells the
        rest afterwards.
        """
        most = self._wanted.max_completion_tokens or self._wanted.max_tokens
        prompt = Transcript(self._prompt)
        answer = self._service.begin(
            self._session, prompt, self._sampling, most, grammar=self._grammar
        )
        while True:
            came = await answer.next(self._service.limits.ping_s)
            if came is None:
                yield ""
                continue
            event, _ = came
            if isinstance(event, Committed):
                for token in event.tokens:
                    if text := self._text.add(token).text:
                        yield text
                    if self._text.stopped:
                        return
            else:
                self._reason = "length" if event.reason == "length" else "stop"
                if event.reason in ("error", "shutdown"):
                    raise Refusal(503, event.reason, event.error or "the server is shutting down")
                break
        if rest := self._text.finish(cut=event.reason != "stop").text:
            yield rest

    def close(self) -> None:
        """End the session, and with it an answer that is still under way."""
        self._service.sessions.delete(self._session)

    async def stream(self) -> AsyncIterator[bytes]:
        """Server-sent events."""
        yield self._event({"role": "assistant", "content": ""})
        try:
            async for text in self.texts():
                yield self._event({"content": text}) if text else _SILENCE
        except Refusal as refusal:
            yield _sse(refusal.body)
            return
        yield self._event({}, self._reason, **self._notices)
        if self._wanted.stream_options.include_usage:
            yield _sse({**self._head("chat.completion.chunk"), "choices": [], **self._usage()})
        yield b"data: [DONE]\n\n"

    def whole(self) -> dict[str, Any]:
        message = {"role": "assistant", "content": self._text.text}
        choice = {"index": 0, "message": message, "finish_reason": self._reason}
        head = self._head("chat.completion")
        return {**head, "choices": [choice], **self._usage(), **self._notices}

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._service.name,
        }

    def _event(self, delta: dict[str, str], reason: str | None = None, **further: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _sse({**self._head("chat.completion.chunk"), "choices": [choice], **further})

    def _usage(self) -> dict[str, Any]:
        n, m = len(self._prompt), self._text.committed
        usage = {"prompt_tokens": n, "completion_tokens": m, "total_tokens": n + m}
        return {"usage": usage}


def _sse(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, ensure_ascii=False).encode() + b"\n\n"
