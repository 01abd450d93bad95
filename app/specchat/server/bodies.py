"""Reads what clients upload, never more than allowed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from specchat.errors import first_fault
from specchat.server.refusal import Refusal

M = TypeVar("M", bound=BaseModel)

JSON, NDJSON = "application/json", "application/x-ndjson"

_FROM_PAGES = {"origin", "sec-fetch-site"}  # browsers send one of them with what pages post


async def read_message(
    request: Request, kind: type[M], *, limit: int, patience_s: float, untyped: bool = False
) -> M:
    """The JSON body of `request`, which may be `untyped` where no web page sent it.

    Raises Refusal: 408, 413, 415 or 400.
    """
    if not untyped or _FROM_PAGES & set(request.headers):
        _require_type(request, JSON)
    body = bytearray()
    async for chunk in _chunks(request, patience_s):
        body += chunk
        if len(body) > limit:
            raise Refusal(413, "size", f"the body is longer than {limit} bytes")
    return parse(kind, bytes(body))


async def read_lines(request: Request, *, limit: int, patience_s: float) -> AsyncIterator[bytes]:
    """The lines of an upload, each as soon as it is there. Raises Refusal: 408, 413 or 415."""
    _require_type(request, NDJSON)
    rest = b""
    async for chunk in _chunks(request, patience_s):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in (*lines, rest):
            if len(line) > limit:
                raise Refusal(413, "size", f"a line is longer than {limit} bytes")
        for line in lines:
            if line.strip():
                yield line
    if rest.strip():
        yield rest


def parse(kind: type[M], data: bytes) -> M:
    """Raises Refusal, 400, that names the first thing that is wrong and never quotes it."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        place = error.errors(include_input=False, include_url=False)[0]["loc"]
        param = str(place[0]) if place else None
        raise Refusal(400, "invalid", first_fault(error), param=param) from None


def check_ids(tokens: list[int], n_vocab: int, param: str | None = None) -> None:
    """Raises Refusal, 400, for a token id outside the vocabulary."""
    if tokens and max(tokens) >= n_vocab:
        message = f"token id {max(tokens)} is outside the vocabulary ({n_vocab})"
        raise Refusal(400, "token", message, param=param)


async def _chunks(request: Request, patience_s: float) -> AsyncIterator[bytes]:
    """Pieces of the body. Silence is the only sign that a client has died amid its upload."""
    chunks = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(patience_s):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refusal(
                408, "silent", f"the request body did not arrive: no data for {patience_s:g} s"
            ) from None
        yield chunk


def _require_type(request: Request, kind: str) -> None:
    # Also keeps web pages out: without a preflight, which nobody answers, they cannot send these.
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != kind:
        raise Refusal(415, "type", f"the Content-Type must be {kind}")
