"""Anthropic's messages protocol: `/v1/messages` and `/v1/messages/count_tokens`."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from specchat.server.answer_stream import AnswerStream
from specchat.server.anthropic_request import CountTokens, Messages
from specchat.server.conversation import checked_sampling, encode_turns
from specchat.server.refusal import Refusal
from specchat.server.reply import Exchange, Question
from specchat.server.service import Service

_TYPES = {404: "not_found_error", 413: "request_too_large"}


class AnthropicHandlers:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def count(self, request: Request) -> Response:
        wanted = await self._service.read(request, CountTokens)
        wanted.check(self._service.name)
        prompt = await asyncio.to_thread(encode_turns, self._service, wanted.turns)
        return JSONResponse({"input_tokens": len(prompt)})

    async def create(self, request: Request) -> Response:
        service = self._service
        wanted = await service.read(request, Messages)
        notices = wanted.check(service.name)
        prompt = await asyncio.to_thread(encode_turns, service, wanted.turns)
        n, n_ctx = len(prompt), service.model.n_ctx
        if n >= n_ctx:
            message = f"prompt is too long: {n} tokens > {n_ctx - 1} maximum"
            raise Refusal(400, "context_length_exceeded", message, param="messages")
        service.require_place()
        question = Question(
            prompt, checked_sampling(service, wanted), wanted.max_tokens, wanted.stop_sequences
        )
        exchange = Exchange(service, request.state.owner, [question])
        answer = _Answer(exchange, service.name, notices)
        if wanted.stream:
            return AnswerStream(answer.events(), media_type="text/event-stream", end=exchange.close)
        await exchange.complete(request)
        return JSONResponse(answer.whole())


def refused(refusal: Refusal) -> Response:
    """In the shape of this protocol."""
    return JSONResponse(_error(refusal), refusal.status, refusal.headers)


class _Answer:
    def __init__(self, exchange: Exchange, model: str, notices: list[str]) -> None:
        self._exchange = exchange
        self._reply = exchange.replies[0]
        self._notices = {"notices": notices} if notices else {}
        self._head = {
            "id": f"msg_{secrets.token_hex(12)}",
            **{"type": "message", "role": "assistant", "model": model},
        }

    async def events(self) -> AsyncIterator[bytes]:
        """Server-sent events."""
        begun = {"content": [], "stop_reason": None, "stop_sequence": None, **self._usage()}
        yield _event("message_start", message={**self._head, **begun})
        yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        try:
            async for piece in self._reply.pieces():
                if piece is None:
                    yield _event("ping")
                    continue
                delta = {"type": "text_delta", "text": piece.text}
                yield _event("content_block_delta", index=0, delta=delta)
        except Refusal as refusal:
            yield _event("error", **_error(refusal))
            return
        yield _event("content_block_stop", index=0)
        yield _event("message_delta", delta=self._stop(), **self._usage(), **self._notices)
        yield _event("message_stop")

    def whole(self) -> dict[str, Any]:
        """Once the reply has come to its end."""
        text = {"type": "text", "text": self._reply.text.text}
        content = [text] if text["text"] else []
        return {
            **self._head,
            "content": content,
            **self._stop(),
            **self._usage(),
            **self._notices,
        }

    def _stop(self) -> dict[str, Any]:
        stop = self._reply.text.stop
        reason = "max_tokens" if self._reply.reason == "length" else "end_turn"
        return {"stop_reason": "stop_sequence" if stop else reason, "stop_sequence": stop}

    def _usage(self) -> dict[str, Any]:
        usage = self._exchange.usage
        return {
            "usage": {
                "input_tokens": usage.prompt - usage.cached,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": usage.cached,
                "output_tokens": usage.answers,
            }
        }


def _error(refusal: Refusal) -> dict[str, Any]:
    error = refusal.body["error"]
    kind = "api_error" if refusal.status >= 500 else _TYPES.get(refusal.status, error["type"])
    return {"type": "error", "error": {**error, "type": kind}}


def _event(kind: str, **content: Any) -> bytes:
    data = json.dumps({**content, "type": kind}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()
