"""The response that streams an answer, and gives the answer up when its client is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

# A proxy that buffered or compressed a stream would take its speed.
_HEADERS = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}


class AnswerStream(StreamingResponse):
    """`end` is called once, however the response ends.

    A `finally` in the iterator would not do: an iterator that a vanished client left before its
    first item never runs it, and one that was left at a `yield` only when it is collected.
    """

    def __init__(
        self, content: AsyncIterator[bytes], *, media_type: str, end: Callable[[], None]
    ) -> None:
        super().__init__(content, media_type=media_type, headers=_HEADERS)
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()
