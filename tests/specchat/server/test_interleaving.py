"""Requests that meet in one session: each answer goes on from its own request, or is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from typing import Any

import httpx
import pytest

from specengine.stream.transcript import Transcript
from support.verify_server import VerifyServer

API = "/specchat/v1/sessions"
ROOT = Transcript().hash.hex()
PROMPTS = [[1, 4093, 198, 19556], [1, 300, 301, 302, 303, 304, 305]]
DIGITS = "root ::= [0-9]+"


@pytest.fixture
async def client(server: VerifyServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client:
        yield client


async def open_session(client: httpx.AsyncClient) -> str:
    created = await client.post(API, json={"protocol": {"min": 1, "max": 1}})
    return f"{API}/{created.json()['session']}"


def request(prompt: list[int], **changes: Any) -> dict[str, Any]:
    return {
        **{"base": 0, "base_hash": ROOT, "append": prompt, "seed": 7, "max_tokens": 6},
        **changes,
    }


async def answer(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> httpx.Response:
    return await client.post(f"{path}/generate", json=body)


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(line) for line in response.text.splitlines()]


def tokens(response: httpx.Response) -> list[int]:
    return [token for line in lines(response) for token in line.get("tokens", [])]


class Compiling:
    """Grammars are ready when the test says so."""

    def __init__(self, server: VerifyServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = asyncio.Event()
        self._held: list[tuple[Future[Any], Future[Any]]] = []
        self._call, loop = server.service.model.scheduler.call, asyncio.get_running_loop()

        def call(work: Callable[[], Any]) -> Future[Any]:
            held: Future[Any] = Future()
            self._held.append((held, self._call(work)))
            loop.call_soon_threadsafe(self.asked.set)
            return held

        monkeypatch.setattr(server.service.model.scheduler, "call", call)

    def end(self) -> None:
        for held, real in self._held:
            held.set_result(real.result(20))


async def test_a_generate_whose_base_goes_while_its_grammar_is_compiled_is_refused(
    server: VerifyServer, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await open_session(client)
    text = Transcript(PROMPTS[1] + tokens(await answer(client, path, request(PROMPTS[1]))))
    follows = request([], base=len(text), base_hash=text.hash.hex(), grammar=DIGITS)
    compiling = Compiling(server, monkeypatch)
    first = asyncio.create_task(answer(client, path, follows))
    await compiling.asked.wait()
    second = await answer(client, path, request(PROMPTS[0]))
    compiling.end()
    refused = await first
    await client.delete(path)
    assert second.status_code == 200
    assert refused.status_code == 409
    assert refused.json()["error"]["length"] == len(PROMPTS[0]) + len(tokens(second))


async def test_a_generate_whose_session_goes_while_its_grammar_is_compiled_is_refused(
    server: VerifyServer, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, passes = await open_session(client), server.service.model.scheduler.passes
    compiling = Compiling(server, monkeypatch)
    asked = asyncio.create_task(answer(client, path, request(PROMPTS[0], grammar=DIGITS)))
    await compiling.asked.wait()
    assert (await client.delete(path)).status_code == 204
    compiling.end()
    assert (await asked).status_code == 410
    assert server.service.model.scheduler.passes == passes
