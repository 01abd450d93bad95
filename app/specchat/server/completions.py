"""The OpenAI protocol, for programs that know no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from specchat.server.answer_request import AnswerRequest
from specchat.server.answer_stream import AnswerStream
from specchat.server.bodies import check_ids
from specchat.server.chat_request import ChatCompletion
from specchat.server.conversation import checked_sampling, encode_turns
from specchat.server.openai_format import ChatFormat, ChoiceFormat, OpenAIAnswer, TextFormat
from specchat.server.refusal import Refusal
from specchat.server.reply import Exchange, Question
from specchat.server.service import Service
from specchat.server.text_request import TextCompletion


class CompletionHandlers:
    """Each request goes on from what the cache has of earlier ones of the same key."""

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

    async def chat(self, request: Request) -> Response:
        """`POST /v1/chat/completions`."""
        service = self._service
        wanted = await service.read(request, ChatCompletion)
        notices = wanted.check(service.name)
        prompt, predicted = await asyncio.to_thread(self._encode, wanted)
        self._check_room(prompt, "messages")
        [question] = await self._questions(wanted, [prompt], wanted.most, wanted.alternatives)
        question = replace(question, prediction=predicted)
        form = ChatFormat(service.model.vocab)
        return await self._answer(request, wanted, [question], form, notices)

    async def text(self, request: Request) -> Response:
        """`POST /v1/completions`."""
        service = self._service
        wanted = await service.read(request, TextCompletion)
        notices = wanted.check(service.name)
        prompts = await asyncio.to_thread(self._encode_texts, wanted)
        for prompt in prompts:
            self._check_room(prompt, "prompt")
        questions = await self._questions(wanted, prompts, wanted.max_tokens, wanted.logprobs)
        form = TextFormat(service.model.vocab)
        return await self._answer(request, wanted, questions, form, notices)

    async def refuse(self, request: Request) -> Response:
        raise Refusal(
            404,
            "unsupported",
            f"{request.url.path} is not supported by this server: use /v1/chat/completions",
        )

    async def _questions(
        self,
        wanted: AnswerRequest,
        prompts: Sequence[list[int]],
        most: int | None,
        logprobs: int | None,
    ) -> list[Question]:
        """Raises Refusal for options that cannot be, and as `Service.require_place`."""
        service, form = self._service, wanted.form
        sampling = checked_sampling(service, wanted)
        service.require_place()
        return [
            Question(
                prompt,
                sampling,
                most,
                wanted.stops,
                None if form is None else await service.grammar(form, len(prompt)),
                logprobs,
            )
            for prompt in prompts
        ]

    async def _answer(
        self,
        request: Request,
        wanted: AnswerRequest,
        questions: Sequence[Question],
        form: ChoiceFormat,
        notices: list[str],
    ) -> Response:
        service = self._service
        exchange = Exchange(service, request.state.owner, questions, wanted.n)
        with_usage = bool(wanted.stream_options.include_usage)
        answer = OpenAIAnswer(exchange, form, service.name, notices, with_usage=with_usage)
        if wanted.stream:
            return AnswerStream(answer.events(), media_type="text/event-stream", end=exchange.close)
        await exchange.complete(request)
        return JSONResponse(answer.whole())

    def _check_room(self, prompt: list[int], param: str) -> None:
        """Raises Refusal, 400, in the words that clients look for, where the prompt fills all."""
        n, n_ctx = len(prompt), self._service.model.n_ctx
        if n >= n_ctx:
            message = (
                f"This model's maximum context length is {n_ctx} tokens. However, your {param} "
                f"resulted in {n} tokens, which leaves no room for an answer."
            )
            raise Refusal(400, "context_length_exceeded", message, param=param)

    def _encode(self, wanted: ChatCompletion) -> tuple[list[int], list[int]]:
        """Prompt and prediction, of which no more can be of use than the context has room for."""
        model, predicted = self._service.model, wanted.prediction
        prompt = encode_turns(self._service, wanted.turns)
        ids = [] if predicted is None else model.vocab.tokenize(predicted.text)
        return prompt, ids[: model.n_ctx]

    def _encode_texts(self, wanted: TextCompletion) -> list[list[int]]:
        vocab, encoded = self._service.model.vocab, []
        for prompt in wanted.prompts:
            ids = (
                vocab.tokenize(prompt, bos=True, special=True)
                if isinstance(prompt, str)
                else prompt
            )
            if not ids:
                raise Refusal(400, "empty", "the prompt is empty", param="prompt")
            check_ids(ids, vocab.size, "prompt")
            encoded.append(ids)
        return encoded
