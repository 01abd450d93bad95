"""One answer from a verify server, whatever happens to the connection meanwhile."""

from __future__ import annotations

import asyncio
import logging
import math
import queue
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from specchat.backends.verify_server.client import (
    ConflictError,
    GoneError,
    Line,
    VerifyServer,
    hint_line,
)
from specchat.wire.errors import RemoteError, TryAgainError
from specchat.wire.http import explain, is_certificate_error
from specchat.wire.network import NetworkThread
from specengine.core.limits import MAX_DRAFT
from specengine.core.logprobs import TokenLogprobs
from specengine.core.tokens import common_prefix
from specengine.stream.committed import Committed, Ended
from specengine.stream.target_stream import Cut, Notice, Opened, StreamEvent
from specengine.stream.transcript import Transcript

logger = logging.getLogger(__name__)

OnLoss = Literal["wait", "stop", "local"]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_GIVE_UP_S = 10.0  # with `on_loss = stop`
_ALONE_AFTER_S = 3.0  # with `on_loss = local`
_WEIGHT = 0.2  # of a new measurement in an estimate
_LONGEST_LEAD = 64
_IN_VAIN = 128  # hint tokens of which none was ever used: more than one lead
_END = b""  # ends an upload
_UPLOAD_END_S, _UPLOAD_PAUSE_S = 0.5, 1.0


@dataclass
class Connection:
    """A session with a server, kept from one answer to the next."""

    server: VerifyServer
    fingerprint: str
    session: str | None = None
    known: Transcript = field(default_factory=Transcript)
    """What the server knows of the transcript, as far as it told."""
    max_draft: int = MAX_DRAFT
    round_trip_s: float | None = None
    pass_s: float | None = None
    streams_hints: bool = True
    """Not where something on the way holds an upload back until it ends: then in small ones."""


@dataclass(frozen=True)
class Request:
    """What to ask of the target."""

    sampling: dict[str, Any]
    seed: int
    max_tokens: int
    patience_ms: float = 0.0
    on_loss: OnLoss = "wait"
    further: dict[str, Any] = field(default_factory=dict)
    """Whatever else the protocol has: a grammar, log-probabilities."""


class RemoteStream:
    """A `specengine.stream.target_stream.TargetStream` over HTTP; its methods may be called from
    any thread.
    """

    def __init__(
        self,
        network: NetworkThread,
        connection: Connection,
        prompt: Sequence[int],
        request: Request,
    ) -> None:
        self._network = network
        self._connection = connection
        self._request = request
        self._text = Transcript(prompt)
        self._remaining = request.max_tokens
        self._events: queue.SimpleQueue[StreamEvent] = queue.SimpleQueue()
        self._gen: int | None = None
        self._hints: asyncio.Queue[bytes] = asyncio.Queue()
        self._last_us: int | None = None
        self._hinted = 0
        self._used = 0
        self.lost: str | None = None
        """Why the answer is to go on without the target, for as long as it is out of reach."""
        self._cause: str | None = None
        """Why the connection is lost, as long as it is."""
        self._task = network.start(self._run(), self._end)

    @property
    def _has_begun(self) -> bool:
        return self._remaining < self._request.max_tokens

    @property
    def lead(self) -> int:
        connection = self._connection
        if connection.round_trip_s is None or connection.pass_s is None:
            return connection.max_draft
        # If all drafts are accepted, each pass takes a full one: that under way, the next one, and
        # those that begin before hints made from now on arrive. (bench/remote/simulation.py)
        meanwhile = math.ceil(connection.round_trip_s / connection.pass_s)
        return min(_LONGEST_LEAD, (2 + meanwhile) * connection.max_draft)

    def wait(self, timeout: float) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        with suppress(queue.Empty):
            events.append(self._events.get(timeout > 0, timeout or None))
            while True:
                events.append(self._events.get_nowait())
        return events

    def hint(self, pos: int, prefix_hash: bytes, tokens: Sequence[int]) -> None:
        gen = self._gen
        if gen is not None:  # while there is no stream, nobody could use it
            self._hinted += len(tokens)
            line = hint_line(gen, pos, prefix_hash, tokens)
            self._network.loop.call_soon_threadsafe(self._hints.put_nowait, line)

    def close(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        """Follow the stream, again wherever it is cut, until the answer has ended."""
        address = self._connection.server.address
        lost_at, pause_s = None, _FIRST_PAUSE_S
        while self._remaining:
            before, wait_s = len(self._text), pause_s
            try:
                if await self._follow():
                    return
                cause = f"{address.base}: the stream ended before the answer"
            except TryAgainError as error:
                cause, wait_s = str(error), error.after_s
            except RemoteError as error:
                self._end(str(error))
                return
            except httpx.TransportError as error:
                cause = explain(error, address)
                if is_certificate_error(error):
                    self._end(cause)
                    return
            if len(self._text) > before:
                lost_at, pause_s, wait_s = None, _FIRST_PAUSE_S, 0.0
            if not self._remaining:
                break  # only its end was lost
            now = time.monotonic()
            if lost_at is None:
                lost_at, self._cause = now, cause
                self._events.put(Cut(cause))
            if self._request.on_loss == "stop" and now - lost_at > _GIVE_UP_S:
                self._end(f"{cause}; the answer is kept up to where the connection was lost")
                return
            if self._request.on_loss == "local" and now - lost_at > _ALONE_AFTER_S:
                self.lost = cause
            await asyncio.sleep(wait_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self._events.put(Ended("length"))

    async def _follow(self, corrections: int = 2) -> bool:
        """One stream; whether the answer has ended with it.

        `corrections`: how often the server may know less than was thought.
        """
        connection, server = self._connection, self._connection.server
        if connection.session is None:
            created = await server.create_session(connection.fingerprint)
            connection.session, connection.known = created.session, Transcript()
            connection.max_draft = created.max_draft
        uploading: asyncio.Task[None] | None = None
        started = time.perf_counter()
        try:
            async for line in server.generate(connection.session, self._body()):
                if line.gen is not None and uploading is None:
                    self._opened(line.gen, time.perf_counter() - started)
                    uploading = asyncio.create_task(self._upload(connection.session))
                if self._receive(line):
                    return True
            return False
        except GoneError:
            connection.session = None
        except ConflictError as error:
            self._agree(error.conflict.length, error.conflict.hash)
        finally:
            self._gen = None
            if uploading is not None:
                self._hints.put_nowait(_END)
                await asyncio.wait((uploading,), timeout=_UPLOAD_END_S)
                uploading.cancel()
        if corrections == 0:
            raise RemoteError(f"{server.address.base} keeps losing the text of the session")
        return await self._follow(corrections - 1)

    def _body(self) -> dict[str, Any]:
        """The request for what is missing of the answer."""
        request, known = self._request, self._connection.known
        base = common_prefix(known.tokens, self._text.tokens)
        return {
            "base": base,
            "base_hash": self._text.hash_at(base).hex(),
            "append": self._text.tokens[base:].tolist(),
            "sampling": request.sampling,
            "seed": request.seed,
            "max_tokens": self._remaining,
            "patience_ms": request.patience_ms,
            **request.further,
        }

    def _agree(self, length: int, prefix_hash: str) -> None:
        """The server's transcript is another one than was thought: begin where both are equal."""
        same = length <= len(self._text) and self._text.hash_at(length).hex() == prefix_hash
        self._connection.known = Transcript(self._text.tokens[: length if same else 0].tolist())

    def _opened(self, gen: int, seconds: float) -> None:
        """The first line is sent at once: it took a round trip, and the server has our text."""
        self._connection.round_trip_s = _estimate(self._connection.round_trip_s, seconds)
        self._connection.known = self._text.copy()
        while not self._hints.empty():  # of an earlier stream
            self._hints.get_nowait()
        self._last_us = None
        self._gen = gen
        self.lost = None
        if self._cause is not None:
            how = "taken up again where it was cut" if self._has_begun else "waited for"
            self._events.put(Notice(f"{self._cause}: {how}"))
            self._cause = None
        self._events.put(Opened())

    def _receive(self, line: Line) -> bool:
        """Whether the answer has ended."""
        if line.finish in ("stop", "length"):
            self._events.put(Ended("stop" if line.finish == "stop" else "length", line.end_token))
            return True
        if line.finish == "error":
            raise RemoteError(line.error or "the target failed")
        pos, tokens = len(self._text), line.tokens[: self._remaining]
        if tokens:
            if line.pos != pos:
                raise httpx.RemoteProtocolError(f"position {line.pos}, not {pos}")
            self._time(line.t_us)
            self._text.extend(tokens)
            self._connection.known.extend(tokens)
            self._remaining -= len(tokens)
        self._used += line.drafted
        if tokens or line.drafted:
            self._events.put(
                Committed(
                    pos,
                    tuple(tokens),
                    tuple(line.margins),
                    line.accepted,
                    line.drafted,
                    tuple(
                        TokenLogprobs(told.token, told.logprob, told.top) for told in line.logprobs
                    ),
                    None if line.pass_us is None else line.pass_us / 1e6,
                )
            )
        if len(tokens) < len(line.tokens):
            raise RemoteError(
                f"{self._connection.server.address.base} says more than the "
                f"{self._request.max_tokens} tokens that were asked for: the answer is cut there"
            )
        return False

    def _time(self, t_us: int) -> None:
        """A pass took the time since the one before, by the server's own clock."""
        if self._last_us is not None:
            seconds = max(1e-4, (t_us - self._last_us) / 1e6)
            self._connection.pass_s = _estimate(self._connection.pass_s, seconds)
        self._last_us = t_us

    async def _upload(self, session: str) -> None:
        """Hints are worth a try and no more: what fails here is never the answer's concern."""
        while True:
            try:
                if self._connection.streams_hints:
                    await self._connection.server.upload(session, self._lines())
                if self._connection.streams_hints:
                    return
                while lines := await self._gathered():
                    await self._connection.server.upload(session, lines)
                return
            except (httpx.TransportError, TryAgainError):
                await asyncio.sleep(_UPLOAD_PAUSE_S)
            except (RemoteError, GoneError, ConflictError) as error:
                logger.warning("hints are not sent any more: %s", error)
                return

    async def _lines(self) -> AsyncIterator[bytes]:
        """Hints as they come, until the end of the stream, or until it turns out to be in vain."""
        while (line := await self._hints.get()) is not _END:
            yield line
            if self._used == 0 and self._hinted > _IN_VAIN:
                logger.info("uploads are held back on the way: hints go in requests of their own")
                self._connection.streams_hints = False
                return

    async def _gathered(self) -> bytes:
        """The hints that have come since the last request, at least one; none at the end."""
        lines = [await self._hints.get()]
        while not self._hints.empty():
            lines.append(self._hints.get_nowait())
        return b"" if _END in lines else b"".join(lines)

    def _end(self, error: str) -> None:
        self._events.put(Ended("error", error=error))


def _estimate(before: float | None, measured: float) -> float:
    return measured if before is None else before + _WEIGHT * (measured - before)
