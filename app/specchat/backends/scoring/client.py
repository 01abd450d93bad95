"""Speaks a dialect over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
from pydantic import ValidationError

from specchat.backends.openai_chat.protocol import Usage
from specchat.backends.scoring.dialect import (
    Dialect,
    Drawing,
    Events,
    Part,
    Request,
    Scored,
    ServerToken,
)
from specchat.wire.address import Address
from specchat.wire.errors import RemoteError
from specchat.wire.http import check, json_of, new_client
from specchat.wire.keys import Key
from specchat.wire.sse import EventReader
from specengine.chat.chat_template import Turn
from specengine.stream.scoring import Drawn, ScoresError


class _ChatCount(Part):
    usage: Usage


class ScoringClient:
    """Belongs to one event loop.

    Every method raises RemoteError, TryAgainError, httpx.TransportError, and ScoresError where the
    server answers something else than what was asked for.
    """

    def __init__(self, address: Address, key: Key | None, dialect: Dialect) -> None:
        self.address = address
        self.dialect = dialect
        self._client = new_client(address, key)

    async def score(self, text: Sequence[int], draft: Sequence[int], top_n: int) -> Scored:
        answer = await self._post(self.dialect.score(text, draft, top_n))
        return self.dialect.scored(answer, text, draft, top_n)

    async def draw(self, text: Sequence[int], n: int) -> list[Drawn]:
        return self.dialect.drawn(await self._post(self.dialect.request(text, n=n)), n)

    async def encode(self, text: str) -> list[int]:
        return self.dialect.encoded(await self._post(self.dialect.request(text)))

    async def count_chat(self, model: str, turns: Sequence[Turn]) -> int:
        """Tokens of a chat as the server's own template writes it."""
        messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        body = {"model": model, "messages": messages, "max_tokens": 1}
        answer = await self._post(Request("/v1/chat/completions", body))
        try:
            return _ChatCount.model_validate(answer).usage.prompt_tokens
        except ValidationError:
            raise ScoresError("it does not say how long a chat is") from None

    async def stream(
        self, text: Sequence[int], drawing: Drawing, max_tokens: int, top_n: int
    ) -> AsyncIterator[ServerToken]:
        """What the server says by itself after `text`, to the end that it puts to it."""
        path, body = self.dialect.request(text, drawing, max_tokens=max_tokens, top_n=top_n)
        events, reader = Events(self.dialect, top_n), EventReader()
        url, body = self.address.url(path), {**body, "stream": True}
        async with self._client.stream("POST", url, json=body) as response:
            await check(response)
            async for chunk in response.aiter_raw():
                for data in reader.feed(chunk):
                    if data == "[DONE]":
                        return
                    for said in events.read(data):
                        yield said
        if not events.finished:
            raise httpx.RemoteProtocolError("the stream ended before the answer")

    async def close(self) -> None:
        await self._client.aclose()

    async def _post(self, request: Request) -> Any:
        response = await self._client.post(self.address.url(request.path), json=request.body)
        await check(response)
        try:
            return json_of(response)
        except RemoteError as error:
            raise ScoresError(str(error)) from None
