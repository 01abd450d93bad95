"""A verify server as its client sees it: one method for each request of docs/protocol.md."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Annotated, Any, Self, TypeVar

import httpx
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator

from specchat.backends.bounds import Count, DraftLength, Integer64, Logprob, Seconds, TokenId
from specchat.wire.address import Address
from specchat.wire.errors import RemoteError
from specchat.wire.http import check, is_page, json_of, new_client
from specchat.wire.keys import Key
from specchat.wire.messages import PROTOCOL

M = TypeVar("M", bound=BaseModel)

Fingerprint = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
_API = "/specchat/v1"
_LONGEST_LINE = 1 << 20


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class ServedProfile(_Answer):
    """What the server's profile says of its target, for clients that say nothing themselves."""

    name: str
    system: str | None = None
    sampling: dict[str, Any] = {}


class ServedModelInfo(_Answer):
    name: str
    sha256: str | None = None
    vocab_fingerprint: Fingerprint
    n_ctx: Count
    features: frozenset[str] = frozenset()
    """What it takes beyond what every server does."""
    reproducible: bool = False
    """Whether a text does not depend, in any bit, on who else is served."""
    profile: ServedProfile | None = None


class Load(_Answer):
    passes: dict[Count, Seconds] = {}
    """Seconds by width, as far as they were measured."""
    pass_s: Seconds | None = None


class Info(_Answer):
    server: str
    models: list[ServedModelInfo]
    load: Load = Load()


class SessionInfo(_Answer):
    session: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{8,128}$")]
    n_ctx: Count
    max_draft: DraftLength
    vocab_fingerprint: str


class Conflict(_Answer):
    """What the server knows of the transcript instead."""

    length: Count
    hash: str


class LineLogprobs(_Answer):
    token: TokenId
    logprob: Logprob
    top: tuple[tuple[TokenId, Logprob], ...] = ()


class Line(_Answer):
    """A line of a stream; which of these it has tells what it is."""

    gen: Integer64 | None = None
    pos: Count | None = None
    tokens: list[TokenId] = []
    margins: list[float] = []
    accepted: DraftLength = 0
    drafted: DraftLength = 0
    logprobs: list[LineLogprobs] = []
    pass_us: Integer64 | None = None
    t_us: Integer64 = 0
    finish: str | None = None
    end_token: TokenId | None = None
    error: str | None = None

    @model_validator(mode="after")
    def _check_accepted(self) -> Self:
        if self.accepted > self.drafted:
            raise ValueError("more hints were accepted than there were")
        return self


class ConflictError(Exception):
    def __init__(self, conflict: Conflict) -> None:
        super().__init__("the transcript differs")
        self.conflict = conflict


class GoneError(Exception):
    """The session does not exist any more."""


class VerifyServer:
    """Belongs to one event loop. Raises httpx.TransportError for connections that fail."""

    def __init__(self, address: Address, key: Key | None) -> None:
        self.address = address
        self._client = new_client(address, key)

    async def info(self) -> Info | None:
        """What the server has; None if this is not a verify server."""
        response = await self._client.get(self._url("/info"))
        if 400 <= response.status_code < 500 or is_page(response):
            # Something else, or a key is wrong: then the next request says so.
            return None
        await check(response)
        try:
            return Info.model_validate(json_of(response))
        except (ValidationError, RemoteError):
            return None

    async def round_trip_s(self, times: int = 3) -> float:
        """Seconds of the quickest of some small requests."""
        quickest = float("inf")
        for _ in range(times):
            started = time.perf_counter()
            await self._client.get(self.address.url("/health"))
            quickest = min(quickest, time.perf_counter() - started)
        return quickest

    async def vocabulary(self, fingerprint: str) -> bytes:
        response = await self._client.get(self._url(f"/vocab/{fingerprint}"))
        await check(response)
        return response.content

    async def create_session(self, vocab_fingerprint: str) -> SessionInfo:
        body = {
            "protocol": {"min": PROTOCOL, "max": PROTOCOL},
            "vocab_fingerprint": vocab_fingerprint,
        }
        response = await self._client.post(self._url("/sessions"), json=body)
        await check(response)
        return _parse(SessionInfo, response.content)

    async def delete_session(self, session: str) -> None:
        await self._client.delete(self._url(f"/sessions/{session}"))

    async def generate(self, session: str, body: dict[str, Any]) -> AsyncIterator[Line]:
        """The lines of one stream, pings included; raises ConflictError, GoneError."""
        url = self._url(f"/sessions/{session}/generate")
        async with self._client.stream("POST", url, json=body) as response:
            await _check_session(response)
            rest = b""
            async for chunk in response.aiter_raw():
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > _LONGEST_LINE:
                    raise RemoteError(f"{self.address.base} sends a line without end")
                for line in lines:
                    yield _parse(Line, line)

    async def upload(self, session: str, hints: AsyncIterator[bytes] | bytes) -> None:
        """One request with lines of hints; an iterator's are sent as soon as they are there."""
        response = await self._client.post(
            self._url(f"/sessions/{session}/drafts"),
            content=hints,
            headers={"Content-Type": "application/x-ndjson"},
        )
        await _check_session(response)

    async def close(self) -> None:
        await self._client.aclose()

    def _url(self, path: str) -> str:
        return self.address.url(_API + path)


def hint_line(gen: int, pos: int, prefix_hash: bytes, tokens: Iterable[int]) -> bytes:
    """One hint as the protocol spells it."""
    hint = {"gen": gen, "pos": pos, "prefix_hash": prefix_hash.hex(), "tokens": list(tokens)}
    return json.dumps(hint, separators=(",", ":")).encode() + b"\n"


async def _check_session(response: httpx.Response) -> None:
    if response.status_code == 410:
        raise GoneError
    if response.status_code == 409:
        with suppress(ValueError, KeyError, TypeError):
            await response.aread()
            raise ConflictError(Conflict.model_validate(response.json()["error"]))
    await check(response)


def _parse(kind: type[M], data: bytes) -> M:
    try:
        return kind.model_validate_json(data)
    except ValidationError:
        raise RemoteError("the server does not keep to the protocol: is it a newer one?") from None
