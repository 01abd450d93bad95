"""A server going on by itself from a text, as long as what it says is what is wanted."""

from __future__ import annotations

import queue
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import httpx

from specchat.backends.scoring.dialect import ServerToken
from specchat.wire.errors import RemoteError, TryAgainError
from specchat.wire.network import NetworkThread
from specengine.stream.scoring import ScoresError

Failure = RemoteError | TryAgainError | httpx.TransportError | ScoresError


class Continuation:
    """Tokens come as the server says them; used in the engine thread."""

    def __init__(
        self, network: NetworkThread, stream: AsyncIterator[ServerToken], text: Sequence[int]
    ) -> None:
        self.text = list(text)
        """What the next token follows."""
        self.interval_s: float | None = None
        """Between the last two tokens, as they arrived."""
        self._last_at: float | None = None
        self._arrivals: queue.SimpleQueue[tuple[ServerToken | Failure | None, float]] = (
            queue.SimpleQueue()
        )
        self._task = network.start(
            self._receive(stream), lambda cause: self._arrivals.put((RemoteError(cause), 0.0))
        )

    def next(self, timeout: float) -> ServerToken | Failure | None:
        """The next token, what broke the stream, None at its end. Raises queue.Empty where nothing
        has come within `timeout` seconds.
        """
        arrival, at = self._arrivals.get(timeout=timeout)
        if isinstance(arrival, ServerToken):
            self.interval_s = None if self._last_at is None else at - self._last_at
            self._last_at = at
            self.text.append(arrival.token)
        return arrival

    def close(self) -> None:
        self._task.cancel()

    async def _receive(self, stream: AsyncIterator[ServerToken]) -> None:
        try:
            async with aclosing(stream):  # type: ignore[type-var]
                async for said in stream:
                    self._arrivals.put((said, time.perf_counter()))
            self._arrivals.put((None, 0.0))
        except (RemoteError, TryAgainError, httpx.TransportError, ScoresError) as failure:
            self._arrivals.put((failure, 0.0))
