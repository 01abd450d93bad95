"""Sixteen programs at the OpenAI endpoint for a while, of whose requests a tenth is left midway.

SPECCHAT_SOAK=600 keeps at it for ten minutes. Run with -s, it prints what it saw.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from support.smollm import UNENDING
from support.verify_server import VerifyServer, running_server

SECONDS = float(os.environ.get("SPECCHAT_SOAK", "6"))
N_CLIENTS = 16
N_TOKENS = 12
BIAS = {str(token): bias for token, bias in UNENDING.items()}
_MOST_GROWTH = 64 << 20  # bytes between the first third and the end

pytestmark = [
    pytest.mark.usefixtures("smollm_step"),
    pytest.mark.slow,
    pytest.mark.timeout(SECONDS + 280),
]


@pytest.fixture(scope="module")
def server(tiny_model: Path) -> Iterator[VerifyServer]:
    with running_server(tiny_model, places=4, n_ctx=256) as running:
        yield running


class Seen:
    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.waits: list[float] = []
        """Seconds to the first text of each answer."""
        self.left = 0


async def test_16_clients_of_which_some_die(server: VerifyServer) -> None:
    process, seen, memory = psutil.Process(), Seen(), []
    numbers, started = itertools.count(), time.perf_counter()
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=server.url, trust_env=False, timeout=120, limits=limits
    ) as client:

        async def work() -> None:
            while time.perf_counter() - started < SECONDS:
                number = next(numbers)
                await ask(client, number % 7, seen, leaves=number % 10 == 9)
                memory.append(process.memory_info().rss)

        await asyncio.gather(*(work() for _ in range(N_CLIENTS)))
    growth = memory[-1] - max(memory[: max(1, len(memory) // 3)])
    waits = sorted(seen.waits)
    print(
        f"\n{len(waits)} answers, {seen.left} left midway; first text after "
        f"{waits[len(waits) // 2]:.2f} s (median), {waits[int(0.95 * len(waits))]:.2f} s (p95); "
        f"memory {growth / (1 << 20):+.1f} MB since the first third"
    )
    server.wait_until_idle()
    sessions = server.service.sessions._all.values()
    server.wait_until(lambda: all(session.is_idle for session in sessions))
    assert seen.left >= 1
    assert server.service.model.scheduler.load.places_held <= 4
    assert growth < _MOST_GROWTH


async def ask(client: httpx.AsyncClient, seed: int, seen: Seen, *, leaves: bool) -> None:
    """Whoever else is served, and whatever is in the cache: the text for a seed is the same."""
    question = {"role": "user", "content": f"Tell me {seed} stories."}
    body = {"messages": [question], "seed": seed, "max_tokens": N_TOKENS, "logit_bias": BIAS}
    asked, text, last = time.perf_counter(), "", ""
    async with client.stream(
        "POST", "/v1/chat/completions", json={**body, "stream": True}
    ) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                last = line or last
                continue
            chunk: dict[str, Any] = json.loads(line[6:])
            assert "error" not in chunk
            came = chunk["choices"][0]["delta"].get("content")
            if came and not text:
                seen.waits.append(time.perf_counter() - asked)
            text += came or ""
            if text and leaves:
                seen.left += 1
                return
    assert last == "data: [DONE]"
    assert seen.texts.setdefault(seed, text) == text != ""
