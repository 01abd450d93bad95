"""What is counted: every token and every answer, of both protocols, read or not."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from specchat.server.metrics import Metrics
from support.verify_server import VerifyServer

CHAT = {"messages": [{"role": "user", "content": "Count."}], "seed": 3}
GENERATE = {"base": 0, "base_hash": "0" * 32, "append": [1, 2, 3], "seed": 1}
SESSIONS = "/specchat/v1/sessions"


@pytest.fixture
def client(server: VerifyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    """Of a server whose counters begin at 0, and whose answers have no end but their length."""
    monkeypatch.setattr(server.service, "metrics", Metrics())
    monkeypatch.setattr(server.service.model.scheduler, "_eog", frozenset())
    with server.client() as client:
        yield client


def counted(client: httpx.Client, name: str) -> int:
    text = client.get("/metrics").text
    found = re.search(rf"^specchat_{re.escape(name)} (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0


def test_answers_of_both_protocols_are_counted(server: VerifyServer, client: httpx.Client) -> None:
    client.post("/v1/chat/completions", json={**CHAT, "max_tokens": 5})
    client.post("/v1/chat/completions", json={**CHAT, "max_tokens": 4, "stream": True})
    session = client.post(SESSIONS, json={"protocol": {"min": 1, "max": 1}}).json()["session"]
    client.post(f"{SESSIONS}/{session}/generate", json={**GENERATE, "max_tokens": 3})
    server.wait_until_idle()
    assert counted(client, "tokens_total") == 12
    assert counted(client, 'answers_total{ended="length"}') == 3


@pytest.mark.parametrize("protocol", ["verify", "chat"])
def test_an_answer_whose_client_left_is_counted_with_its_tokens(
    server: VerifyServer, client: httpx.Client, protocol: str
) -> None:
    if protocol == "verify":
        session = client.post(SESSIONS, json={"protocol": {"min": 1, "max": 1}}).json()["session"]
        path, body = f"{SESSIONS}/{session}/generate", GENERATE
    else:
        path, body = "/v1/chat/completions", {**CHAT, "stream": True}
    with client.stream("POST", path, json=body) as stream:
        for i, _ in enumerate(stream.iter_lines()):
            if i == 4:
                break
    server.wait_until_idle()
    server.wait_until(lambda: counted(client, 'answers_total{ended="cancelled"}') == 1)
    assert counted(client, "tokens_total") >= 1
