"""Examines a server for `specchat connect`: its kind, its speed, and whether proxies buffer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
from pydantic import BaseModel

from specchat.backends.openai_chat.server import ChatClient
from specchat.backends.scoring.pair import ENGINES
from specchat.backends.verify_server.client import GoneError, Info, Line, VerifyServer, hint_line
from specchat.wire.address import Address
from specchat.wire.errors import RemoteError, TryAgainError
from specchat.wire.http import explain
from specchat.wire.keys import Key
from specengine.stream.transcript import Transcript

_PAUSE_S = 0.4  # between two tokens: what passes buffers comes later than the first of them
_HINT_PATIENCE_S = 2.0  # what a hint saves where it arrives at once
_PROMPT = [1, 1, 1, 1]  # any text


class Examination(BaseModel):
    """The findings; None if something could not be found out."""

    address: str
    kind: str
    """`specchat`: verifies drafts; `vllm`, `sglang`: can score them; `openai`: answers alone."""
    server: str | None = None
    models: list[str]
    n_ctx: int | None = None
    vocab_fingerprint: str | None = None
    verifies: bool
    round_trip_ms: float
    pass_ms: float | None = None
    """A pass for one session, where the server has measured one."""
    passes_s: dict[int, float] = {}
    """Seconds of passes by their width, as the server has measured them."""
    buffers_down: bool | None = None
    """Whether something on the way holds the stream back; then every token is late."""
    buffers_up: bool | None = None
    """Whether something holds hints back; then they come too late to be of use."""


async def examine(address: Address, key: Key | None) -> Examination:
    """Connect and try. Raises RemoteError if nothing usable listens."""
    server = VerifyServer(address, key)
    try:
        info = await server.info()
        round_trip_s = await server.round_trip_s()
        if info is None or not info.models:
            return await _examine_chat(address, key, round_trip_s)
        return await _examine_verify(server, info, round_trip_s)
    except httpx.TransportError as error:
        raise RemoteError(explain(error, address)) from error
    except TryAgainError as error:
        raise RemoteError(str(error)) from error
    finally:
        await server.close()


async def _examine_chat(address: Address, key: Key | None, round_trip_s: float) -> Examination:
    client = ChatClient(address, key)
    try:
        models = await client.models()
    finally:
        await client.close()
    engines = {model.owned_by for model in models} & set(ENGINES)
    return Examination(
        address=address.base,
        kind=engines.pop() if len(engines) == 1 else "openai",
        models=[model.id for model in models],
        verifies=False,
        round_trip_ms=1000 * round_trip_s,
    )


async def _examine_verify(server: VerifyServer, info: Info, round_trip_s: float) -> Examination:
    model = info.models[0]
    pass_s = info.load.pass_s
    buffers_down = await _buffers_down(server, model.vocab_fingerprint)
    # Where tokens come late, nobody can tell whether hints do.
    buffers_up = None if buffers_down else await _buffers_up(server, model.vocab_fingerprint)
    return Examination(
        address=server.address.base,
        kind="specchat",
        server=info.server,
        models=[model.name for model in info.models],
        n_ctx=model.n_ctx,
        vocab_fingerprint=model.vocab_fingerprint,
        verifies=True,
        round_trip_ms=1000 * round_trip_s,
        pass_ms=None if pass_s is None else 1000 * pass_s,
        passes_s=info.load.passes,
        buffers_down=buffers_down,
        buffers_up=buffers_up,
    )


async def _buffers_down(server: VerifyServer, fingerprint: str) -> bool | None:
    """The server pauses between two tokens: is the pause still there when they arrive?"""
    at: list[float] = []
    async for _, line in _answer(server, fingerprint, _PAUSE_S):
        if line.tokens:
            at.append(time.perf_counter())
    return at[1] - at[0] < _PAUSE_S / 2 if len(at) > 1 else None


async def _buffers_up(server: VerifyServer, fingerprint: str) -> bool | None:
    """A hint ends the server's patience: does it arrive while its upload goes on?"""
    text = Transcript(_PROMPT)
    uploading: asyncio.Task[None] | None = None
    done = asyncio.Event()
    hinted_at: float | None = None
    seconds: float | None = None

    async def body(gen: int) -> AsyncIterator[bytes]:
        yield hint_line(gen, len(text), text.hash, [_PROMPT[0]])
        await done.wait()

    async for session, line in _answer(server, fingerprint, _HINT_PATIENCE_S):
        if line.tokens and line.gen is not None:
            text.extend(line.tokens)
            if hinted_at is None:
                hinted_at = time.perf_counter()
                uploading = asyncio.create_task(server.upload(session, body(line.gen)))
            elif seconds is None:
                seconds = time.perf_counter() - hinted_at
    done.set()
    if uploading is not None:
        await asyncio.wait((uploading,), timeout=_HINT_PATIENCE_S)
        uploading.cancel()
    return None if seconds is None else seconds > 0.75 * _HINT_PATIENCE_S


async def _answer(
    server: VerifyServer, fingerprint: str, patience_s: float
) -> AsyncIterator[tuple[str, Line]]:
    """Three tokens, the second after `patience_s` or a hint; the session with each line."""
    session = (await server.create_session(fingerprint)).session
    body = {
        **{"base": 0, "base_hash": Transcript().hash.hex(), "append": _PROMPT, "seed": 0},
        **{"max_tokens": 3, "patience_ms": 1000 * patience_s},
    }
    try:
        async for line in server.generate(session, body):
            yield session, line
    except GoneError:
        raise RemoteError("the server has forgotten the session at once") from None
    finally:
        await server.delete_session(session)
