"""Ollama's protocol: `/api/chat`, `/api/generate`, `/api/tags`, `/api/show`, `/api/version`."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from specchat.server.answer_stream import AnswerStream
from specchat.server.bodies import JSON, NDJSON
from specchat.server.conversation import checked_sampling, encode_turns
from specchat.server.ollama_request import OllamaChat, OllamaGenerate, OllamaShow
from specchat.server.openai_format import told_tokens
from specchat.server.refusal import Refusal
from specchat.server.reply import Exchange, Piece, Question
from specchat.server.service import Service
from specchat.version import __version__

_NOTHING = Piece("")

Shape = Callable[[str], dict[str, Any]]
"""Where a protocol's answer has its text."""


class OllamaHandlers:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._since = datetime.now(UTC).isoformat()

    async def version(self, request: Request) -> Response:
        return JSONResponse({"version": __version__})

    async def tags(self, request: Request) -> Response:
        gguf, name = self._service.gguf, self._service.name
        model = {
            **{"name": name, "model": name, "modified_at": self._since, "size": gguf.file_size},
            **{"digest": self._service.sha256 or "", "details": self._details()},
        }
        return JSONResponse({"models": [model]})

    async def show(self, request: Request) -> Response:
        service = self._service
        await service.read(request, OllamaShow, untyped=True)
        profile = service.profile
        settings = {} if profile is None else profile.sampling.model_dump(exclude_unset=True)
        settings = {"num_ctx": service.model.n_ctx} | settings
        context = {f"{service.gguf.architecture}.context_length": service.model.n_ctx}
        shown = {
            "details": self._details(),
            "template": service.model.chat_template or "",
            "parameters": "\n".join(
                f"{name} {value}" for name, value in settings.items() if name != "logit_bias"
            ),
            "model_info": _finite(service.gguf.metadata) | context,
            "capabilities": ["completion"],
        }
        # A file's texts may be no UTF-8.
        return Response(json.dumps(shown), media_type=JSON)

    async def chat(self, request: Request) -> Response:
        wanted = await self._service.read(request, OllamaChat, untyped=True)
        return await self._answer(
            request, wanted, lambda text: {"message": {"role": "assistant", "content": text}}
        )

    async def generate(self, request: Request) -> Response:
        wanted = await self._service.read(request, OllamaGenerate, untyped=True)
        return await self._answer(request, wanted, lambda text: {"response": text})

    async def _answer(
        self, request: Request, wanted: OllamaChat | OllamaGenerate, shape: Shape
    ) -> Response:
        service = self._service
        notices = wanted.check(service.name)
        if not wanted.turns:
            ready = {**_head(service.name), **shape(""), "done": True, "done_reason": "load"}
            return JSONResponse(ready)
        prompt = await asyncio.to_thread(self._encode, wanted)
        service.room(len(prompt))
        service.require_place()
        form = wanted.form
        question = Question(
            prompt,
            checked_sampling(service, wanted),
            wanted.most,
            wanted.stops,
            None if form is None else await service.grammar(form, len(prompt)),
            wanted.alternatives,
        )
        exchange = Exchange(service, request.state.owner, [question])
        answer = _Answer(exchange, shape, service, notices)
        if wanted.stream:
            return AnswerStream(answer.lines(), media_type=NDJSON, end=exchange.close)
        await exchange.complete(request)
        reply = exchange.replies[0]
        return JSONResponse(answer.last(Piece(reply.text.text, reply.logprobs)))

    def _encode(self, wanted: OllamaChat | OllamaGenerate) -> list[int]:
        if isinstance(wanted, OllamaGenerate) and wanted.raw:
            return self._service.model.vocab.tokenize(wanted.prompt, bos=True, special=True)
        return encode_turns(self._service, wanted.turns)

    def _details(self) -> dict[str, Any]:
        gguf = self._service.gguf
        return {
            "parent_model": "",
            "format": "gguf",
            "family": gguf.architecture,
            "families": [gguf.architecture],
            "parameter_size": f"{gguf.n_params / 1e9:.2f}B",
            "quantization_level": gguf.quantization,
        }


def refused(refusal: Refusal) -> Response:
    """In the shape of this protocol."""
    return JSONResponse(_error(refusal), refusal.status, refusal.headers)


class _Answer:
    def __init__(
        self, exchange: Exchange, shape: Shape, service: Service, notices: list[str]
    ) -> None:
        self._exchange = exchange
        self._shape = shape
        self._service = service
        self._notices = {"notices": notices} if notices else {}
        self._began = time.perf_counter_ns()

    async def lines(self) -> AsyncIterator[bytes]:
        """One JSON object each; an empty text after a while without any."""
        try:
            async for piece in self._exchange.replies[0].pieces():
                yield _line({**self._part(piece or _NOTHING), "done": False})
        except Refusal as refusal:
            yield _line(_error(refusal))
            return
        yield _line(self.last(_NOTHING))

    def last(self, piece: Piece) -> dict[str, Any]:
        """With what was not told before. Durations are in nanoseconds."""
        usage, reply = self._exchange.usage, self._exchange.replies[0]
        ended = time.perf_counter_ns()
        spoke = reply.spoke_ns or ended
        return {
            **self._part(piece),
            "done": True,
            "done_reason": reply.reason,
            "total_duration": ended - self._began,
            "load_duration": 0,
            "prompt_eval_count": usage.prompt,
            "prompt_eval_duration": spoke - self._began,
            "eval_count": usage.answers,
            "eval_duration": ended - spoke,
            **self._notices,
        }

    def _part(self, piece: Piece) -> dict[str, Any]:
        told = told_tokens(self._service.model.vocab, piece.logprobs)
        part = {**_head(self._service.name), **self._shape(piece.text)}
        return {**part, "logprobs": told} if told else part


def _finite(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What of it JSON has a word for."""
    return {
        name: value
        for name, value in metadata.items()
        if not isinstance(value, float) or math.isfinite(value)
    }


def _head(model: str) -> dict[str, Any]:
    return {"model": model, "created_at": datetime.now(UTC).isoformat().replace("+00:00", "Z")}


def _error(refusal: Refusal) -> dict[str, Any]:
    return {"error": refusal.body["error"]["message"]}


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"
