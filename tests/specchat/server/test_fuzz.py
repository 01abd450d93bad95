"""Bad requests are refused, the process lives, and nobody else notices.

SPECCHAT_FUZZ=10000 sends so many.
"""

from __future__ import annotations

import json
import os
import random
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from specengine.stream.transcript import Transcript
from support.verify_server import VerifyServer, running_server

N = int(os.environ.get("SPECCHAT_FUZZ", "400"))
API = "/specchat/v1"
NEW = {"protocol": {"min": 1, "max": 1}}
GENERATE = {
    **{"base": 0, "base_hash": Transcript().hash.hex(), "append": [1, 2, 3], "seed": 1},
    **{"max_tokens": 2, "patience_ms": 0, "sampling": {"temperature": 0.5, "top_k": 3}},
}
HINT = {"gen": 1, "pos": 3, "prefix_hash": "0" * 32, "tokens": [1, 2]}
CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2, "stop": ["x"], "seed": 1}
STRANGE: list[Any] = [
    *(None, True, -1, 0, 2**31, 2**63, 2**64, 10**400, 0.5, 1e308, float("inf"), float("nan")),
    *("", "0" * 32, "\x00", "\ud800", "💥" * 500, [], [[]], [None], [1] * 5000, {}, {"a": {}}),
]


@pytest.fixture(scope="module")
def server(tiny_model: Path) -> Iterator[VerifyServer]:
    """Some requests come without a limit: a short context keeps their answers short."""
    with running_server(tiny_model, n_ctx=96) as running:
        yield running


def broken(rng: random.Random, content: Any) -> Any:
    """`content` with something in it replaced, removed or added."""
    if isinstance(content, dict) and content and rng.random() < 0.8:
        key = rng.choice(list(content))
        changed = dict(content)
        match rng.randrange(4):
            case 0:
                del changed[key]
            case 1:
                changed[rng.choice(["x", "", "base", "__proto__"])] = rng.choice(STRANGE)
            case _:
                changed[key] = broken(rng, content[key])
        return changed
    if isinstance(content, list) and content and rng.random() < 0.5:
        return [broken(rng, item) for item in content] * rng.choice([1, 1, 2, 300])
    return rng.choice(STRANGE)


def spoiled(rng: random.Random, body: bytes) -> bytes:
    """`body` with bytes of it damaged."""
    if rng.random() < 0.7 or not body:
        return body
    cut = rng.randrange(len(body))
    return rng.choice(
        [
            body[:cut],
            body[:cut] + rng.randbytes(rng.randrange(9)) + body[cut:],
            body * 2,
            b"[" * 4000,
        ]
    )


def send(rng: random.Random, client: httpx.Client, session: str) -> int:
    path, kind, template = rng.choice(
        [
            (f"{API}/sessions", "application/json", NEW),
            (f"{session}/generate", "application/json", GENERATE),
            (f"{session}/drafts", "application/x-ndjson", HINT),
            (
                f"{API}/sessions/{rng.choice(['x', '..', '%00', 'ế'])}/generate",
                "application/json",
                GENERATE,
            ),
            ("/v1/chat/completions", "application/json", CHAT),
        ]
    )
    body = json.dumps(broken(rng, template), ensure_ascii=rng.random() < 0.5)
    headers: dict[str, Any] = {"Content-Type": rng.choice([kind, kind, kind, "text/plain", ""])}
    if rng.random() < 0.05:
        headers["Authorization"] = rng.choice(["Bearer", b"Bearer \xff\xfe", "x" * 9000])
    method = rng.choice(["POST", "POST", "POST", "POST", "PUT", "GET", "PATCH"])
    content = spoiled(rng, body.encode("utf-8", "surrogatepass"))
    response = client.request(method, path, content=content, headers=headers)
    if response.status_code >= 400:
        assert response.status_code < 500, response.text
        if response.headers.get("content-type") == "application/json":
            assert set(response.json()["error"]) >= {"code", "message"}
    return response.status_code


def raw_garbage(rng: random.Random, server: VerifyServer) -> None:
    """What is no HTTP, or ends in the middle."""
    address = urlsplit(server.url)
    head = b"POST /specchat/v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"
    with socket.create_connection((address.hostname, address.port or 0)) as connection:
        connection.sendall(rng.choice([rng.randbytes(200), head, b"GET / HTTP/9.9\r\n\r\n", b""]))


def test_bad_requests_harm_nobody(server: VerifyServer) -> None:
    rng = random.Random(6)
    statuses: Counter[int] = Counter()
    with server.client() as client, server.client() as other:
        expected = _answer(other)
        session = f"{API}/sessions/{client.post(f'{API}/sessions', json=NEW).json()['session']}"
        for i in range(N):
            if i % 50 == 0:
                raw_garbage(rng, server)
                for extra in list(server.service.sessions._all.values()):
                    if f"{API}/sessions/{extra.id}" != session:
                        server.service.sessions.delete(extra)
            statuses[send(rng, client, session)] += 1
            if i % (N // 4) == 0:
                assert _answer(other) == expected
        client.delete(session)
    server.wait_until_idle()
    print(dict(sorted(statuses.items())))
    assert sum(n for status, n in statuses.items() if status >= 400) > N / 2


def _answer(client: httpx.Client) -> str:
    body = {**CHAT, "max_tokens": 6}
    response = client.post("/v1/chat/completions", json=body)
    text: str = response.json()["choices"][0]["message"]["content"]
    return text
