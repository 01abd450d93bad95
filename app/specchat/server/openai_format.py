"""How answers look in the OpenAI protocol: whole, and as server-sent events."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from specchat.server.refusal import Refusal
from specchat.server.reply import Exchange, Piece, Reply
from specengine.core.logprobs import TokenLogprobs
from specengine.core.vocab import Vocab

SILENCE = b": still here\n\n"
"""A comment, so that nothing on the way closes the connection."""
_DONE = b"data: [DONE]\n\n"


class ChoiceFormat(Protocol):
    """What chat completions and text completions do not share."""

    prefix: str
    whole: str
    chunk: str
    """The `object` of an answer and of an event."""

    def first(self) -> dict[str, Any] | None:
        """What a choice's first event says, if it has one beside its text."""

    def part(self, piece: Piece) -> dict[str, Any]: ...

    def last(self) -> dict[str, Any]: ...

    def choice(self, reply: Reply) -> dict[str, Any]: ...


class ChatFormat:
    prefix, whole, chunk = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, vocab: Vocab) -> None:
        self._vocab = vocab

    def first(self) -> dict[str, Any]:
        return {"delta": {"role": "assistant", "content": ""}}

    def part(self, piece: Piece) -> dict[str, Any]:
        return {"delta": {"content": piece.text}, **self._logprobs(piece.logprobs)}

    def last(self) -> dict[str, Any]:
        return {"delta": {}}

    def choice(self, reply: Reply) -> dict[str, Any]:
        message = {"role": "assistant", "content": reply.text.text}
        return {"message": message, **self._logprobs(reply.logprobs)}

    def _logprobs(self, tokens: Sequence[TokenLogprobs]) -> dict[str, Any]:
        if not tokens:
            return {}
        return {"logprobs": {"content": told_tokens(self._vocab, tokens), "refusal": None}}


class TextFormat:
    prefix, whole, chunk = "cmpl", "text_completion", "text_completion"

    def __init__(self, vocab: Vocab) -> None:
        self._vocab = vocab

    def first(self) -> None:
        return None

    def part(self, piece: Piece) -> dict[str, Any]:
        return {"text": piece.text, "logprobs": self._logprobs(piece.logprobs)}

    def last(self) -> dict[str, Any]:
        return {"text": "", "logprobs": None}

    def choice(self, reply: Reply) -> dict[str, Any]:
        return {"text": reply.text.text, "logprobs": self._logprobs(reply.logprobs)}

    def _logprobs(self, tokens: Sequence[TokenLogprobs]) -> dict[str, Any] | None:
        def text(id_: int) -> str:
            return self._vocab.piece(id_).decode(errors="replace")

        if not tokens:
            return None
        return {
            "tokens": [text(told.token) for told in tokens],
            "token_logprobs": [told.logprob for told in tokens],
            "top_logprobs": [{text(id_): logprob for id_, logprob in told.top} for told in tokens],
        }


class OpenAIAnswer:
    """The answer to one request, whose `exchange` it gives the shape of `form`."""

    def __init__(
        self,
        exchange: Exchange,
        form: ChoiceFormat,
        model: str,
        notices: list[str],
        *,
        with_usage: bool = False,
    ) -> None:
        """`with_usage`: events end with the usage."""
        self._exchange = exchange
        self._form = form
        self._with_usage = with_usage
        self._notices = {"notices": notices} if notices else {}
        self._head = {
            "id": f"{form.prefix}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
        }

    async def events(self) -> AsyncIterator[bytes]:
        """Server-sent events, the choices one after another."""
        form, replies = self._form, self._exchange.replies
        try:
            for i, reply in enumerate(replies):
                if (first := form.first()) is not None:
                    yield self._event(i, first)
                async for piece in reply.pieces():
                    yield SILENCE if piece is None else self._event(i, form.part(piece))
                told = self._notices if reply is replies[-1] else {}
                yield self._event(i, form.last(), reply.reason, **told)
        except Refusal as refusal:
            yield sse(refusal.body)
            return
        if self._with_usage:
            yield sse({**self._head, "object": form.chunk, "choices": [], "usage": self._usage()})
        yield _DONE

    def whole(self) -> dict[str, Any]:
        """Once all replies have come to their ends."""
        choices = [
            {"index": i, **self._form.choice(reply), "finish_reason": reply.reason}
            for i, reply in enumerate(self._exchange.replies)
        ]
        answer = {**self._head, "object": self._form.whole, "choices": choices}
        return {**answer, "usage": self._usage(), **self._notices}

    def _event(
        self, index: int, content: dict[str, Any], reason: str | None = None, **further: Any
    ) -> bytes:
        choice = {"index": index, **content, "finish_reason": reason}
        return sse({**self._head, "object": self._form.chunk, "choices": [choice], **further})

    def _usage(self) -> dict[str, Any]:
        usage = self._exchange.usage
        return {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.answers,
            "total_tokens": usage.prompt + usage.answers,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
            "completion_tokens_details": {
                "accepted_prediction_tokens": usage.accepted,
                "rejected_prediction_tokens": usage.rejected,
            },
        }


def told_tokens(vocab: Vocab, tokens: Sequence[TokenLogprobs]) -> list[dict[str, Any]]:
    """Tokens with their log-probabilities, and those that might have been there."""

    def token(id_: int, logprob: float) -> dict[str, Any]:
        data = vocab.piece(id_)
        return {"token": data.decode(errors="replace"), "logprob": logprob, "bytes": list(data)}

    return [
        {
            **token(told.token, told.logprob),
            "top_logprobs": [token(id_, logprob) for id_, logprob in told.top],
        }
        for told in tokens
    ]


def sse(content: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(content, ensure_ascii=False).encode() + b"\n\n"
