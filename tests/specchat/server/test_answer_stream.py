"""An answer ends with its response, wherever the client left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from specchat.server.answer_stream import AnswerStream

LINES = [b"one\n", b"two\n"]


async def lines() -> AsyncIterator[bytes]:
    for line in LINES:
        yield line


async def test_what_is_streamed_and_that_it_ends_once() -> None:
    sent: list[Message] = []
    ended: list[int] = []

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    stream = AnswerStream(lines(), media_type="text/plain", end=lambda: ended.append(len(sent)))
    await stream({"type": "http"}, receive, send)
    assert [message.get("body") for message in sent] == [None, *LINES, b""]
    assert dict(sent[0]["headers"])[b"cache-control"] == b"no-store, no-transform"
    assert ended == [4]


@pytest.mark.parametrize("taken", [0, 1, 2])
async def test_a_client_that_leaves_after_so_many_messages(taken: int) -> None:
    """With none taken the iterator is never begun."""
    ended: list[bool] = []
    left = asyncio.Event()

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    n = 0

    async def send(message: Message) -> None:
        nonlocal n
        if n == taken:
            left.set()
            await asyncio.Event().wait()
        n += 1

    stream = AnswerStream(lines(), media_type="text/plain", end=lambda: ended.append(True))
    await asyncio.wait_for(stream({"type": "http"}, receive, send), 20)
    assert ended == [True]


async def test_a_connection_that_breaks_while_something_is_sent() -> None:
    """What servers of ASGI 2.4 do instead of the message."""
    ended: list[bool] = []

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        raise OSError

    stream = AnswerStream(lines(), media_type="text/plain", end=lambda: ended.append(True))
    with pytest.raises(ClientDisconnect):
        await stream({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)
    assert ended == [True]
