"""A verify server that says what a test wrote down, without a socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx

from specchat.backends.verify_server.client import VerifyServer
from specchat.wire.address import parse_address

Said = dict[str, Any] | bytes | Exception
"""A line, bytes as they are, or what breaks the connection."""


def committed(pos: int, *tokens: int, **others: Any) -> dict[str, Any]:
    return {"gen": 1, "pos": pos, "tokens": tokens, "t_us": 0, **others}


class ScriptedTarget:
    """`streams` are given in turn to requests for an answer; each begins with its opening line.

    `before` is called before each line that follows, in the network thread.
    """

    def __init__(
        self, *streams: Sequence[Said] | httpx.Response, before: Callable[[], None] = lambda: None
    ) -> None:
        self.streams = list(streams)
        self.bodies: list[dict[str, Any]] = []
        self.server = VerifyServer(parse_address("http://127.0.0.1:9"), None)
        self.server._client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        self._before = before

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("/sessions"):
            session = {"session": "s" * 20, "n_ctx": 512, "max_draft": 8}
            return httpx.Response(201, json={**session, "vocab_fingerprint": "0" * 32})
        if not path.endswith("/generate"):
            return httpx.Response(200, json={})
        self.bodies.append(json.loads(request.content))
        if not self.streams:
            return httpx.Response(400, json={"error": {"message": "nothing more is written down"}})
        stream = self.streams.pop(0)
        if isinstance(stream, httpx.Response):
            return stream
        body = self.bodies[-1]
        return httpx.Response(200, content=self._lines(body["base"] + len(body["append"]), stream))

    async def _lines(self, pos: int, said: Sequence[Said]) -> AsyncIterator[bytes]:
        yield json.dumps(committed(pos)).encode() + b"\n"
        for line in said:
            self._before()
            if isinstance(line, Exception):
                raise line
            yield line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
