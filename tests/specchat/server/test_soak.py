"""Many sessions at one server for a while: nothing is lost, nobody starves, memory stays.

SPECCHAT_SOAK=600 keeps at it for ten minutes. Run with -s, it prints its table.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from specengine.stream.transcript import Transcript
from support.verify_server import VerifyServer, running_server

SECONDS = float(os.environ.get("SPECCHAT_SOAK", "8"))
N_SESSIONS = 32
N_TOKENS = 16
API = "/specchat/v1/sessions"
PROMPTS = [[1, 5, 9, 200 + i] * (2 + i) for i in range(4)]
_MOST_GROWTH = 64 << 20  # bytes between the first third and the end; a leaked session has megabytes

pytestmark = [
    pytest.mark.usefixtures("smollm_step"),
    pytest.mark.slow,
    pytest.mark.timeout(SECONDS + 280),
]


@pytest.fixture(scope="module")
def server(tiny_model: Path) -> Iterator[VerifyServer]:
    with running_server(tiny_model, places=8, n_ctx=128) as running:
        yield running


class Session:
    """Asks one question after another, and counts what comes."""

    def __init__(self, client: httpx.AsyncClient, number: int) -> None:
        self._client = client
        self._order = itertools.cycle(range(number, number + len(PROMPTS)))
        self.tokens = 0
        self.answers = 0
        self.waits: list[float] = []
        """Seconds to the first token of each answer."""

    async def open(self) -> None:
        answer = await self._client.post(API, json={"protocol": {"min": 1, "max": 1}})
        self._id = answer.json()["session"]

    async def ask(self, expected: dict[int, list[int]]) -> None:
        which = next(self._order) % len(PROMPTS)
        body = {
            **{"base": 0, "base_hash": Transcript().hash.hex(), "append": PROMPTS[which]},
            **{"seed": which, "max_tokens": N_TOKENS, "sampling": {"temperature": 0.8}},
        }
        tokens: list[int] = []
        finish, asked = None, time.perf_counter()
        url = f"{API}/{self._id}/generate"
        async with self._client.stream("POST", url, json=body) as response:
            assert response.status_code == 200
            async for text in response.aiter_lines():
                line: dict[str, Any] = json.loads(text)
                if line.get("tokens"):
                    if not tokens:
                        self.waits.append(time.perf_counter() - asked)
                    tokens += line["tokens"]
                    self.tokens += len(line["tokens"])
                finish = line.get("finish", finish)
        assert finish in ("stop", "length")
        # Whoever else is served, and whenever: the text for a seed is the same.
        assert expected.setdefault(which, tokens) == tokens
        self.answers += 1

    async def close(self) -> None:
        await self._client.delete(f"{API}/{self._id}")


async def test_32_sessions_at_one_server(server: VerifyServer) -> None:
    process = psutil.Process()
    expected: dict[int, list[int]] = {}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=server.url, trust_env=False, timeout=120, limits=limits
    ) as client:
        sessions = [Session(client, number) for number in range(N_SESSIONS)]
        for session in sessions:
            await session.open()
        one_rate = await _rate(sessions[:1], SECONDS / 5, expected)
        memory: list[int] = []
        watching = asyncio.create_task(_watch(process, memory))
        all_rate = await _rate(sessions, SECONDS, expected)
        watching.cancel()
        for session in sessions:
            await session.close()
    growth = memory[-1] - max(memory[: max(1, len(memory) // 3)])
    answers = sorted(session.answers for session in sessions[1:])
    waits = sorted(wait for session in sessions for wait in session.waits)
    print(
        f"\n{N_SESSIONS} sessions, {SECONDS:.0f} s: {all_rate:.1f} tokens/s, one at a time "
        f"{one_rate:.1f}; answers each {answers[0]} to {answers[-1]}; first token after "
        f"{waits[len(waits) // 2]:.2f} s (median), {waits[-1]:.2f} s (worst); memory "
        f"{memory[-1] >> 20} MB, {growth / (1 << 20):+.1f} MB since the first third"
    )
    server.wait_until_idle()
    assert len(server.service.sessions) == 0
    assert growth < _MOST_GROWTH
    assert answers[0] >= 1
    assert answers[-1] - answers[0] <= 1 + answers[-1] // 4  # first come, first served
    assert Counter(map(len, expected.values())).total() == len(PROMPTS)


async def _rate(sessions: list[Session], seconds: float, expected: dict[int, list[int]]) -> float:
    """Tokens a second of `sessions` together; every answer that was begun is finished."""
    before, started = sum(s.tokens for s in sessions), time.perf_counter()

    async def work(session: Session) -> None:
        while time.perf_counter() - started < seconds:
            await session.ask(expected)

    await asyncio.gather(*map(work, sessions))
    return (sum(s.tokens for s in sessions) - before) / (time.perf_counter() - started)


async def _watch(process: psutil.Process, memory: list[int]) -> None:
    while True:
        memory.append(process.memory_info().rss)
        await asyncio.sleep(0.5)
