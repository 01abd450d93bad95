"""Numbers in requests are numbers, and such as the engine can compute with."""

from __future__ import annotations

from typing import Any

import pytest

from support.verify_server import VerifyServer

API = "/specchat/v1"
CHAT = {"messages": [{"role": "user", "content": ""}], "max_tokens": 1}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{API}/sessions", {"protocol": {"min": True, "max": 1}}),
        (f"{API}/sessions/x/generate", {"seed": False}),
        (f"{API}/sessions/x/generate", {"patience_ms": "5"}),
        (f"{API}/sessions/x/generate", {"sampling": {"top_k": True}}),
        (f"{API}/sessions/x/generate", {"logprobs": True}),
        (f"{API}/sessions/x/generate", {"grammar_start": "1"}),
        ("/v1/chat/completions", {**CHAT, "seed": False}),
    ],
)
def test_booleans_and_texts_are_no_numbers(
    server: VerifyServer, path: str, body: dict[str, Any]
) -> None:
    generate = {"base": 0, "base_hash": "0" * 32, "append": [1], "seed": 1}
    content = {**generate, **body} if path.endswith("generate") else body
    with server.client() as client:
        response = client.post(path, json=content)
    assert response.status_code == 400
    assert "must be a number" in response.json()["error"]["message"]


@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty"])
def test_a_penalty_beyond_all_logits_is_refused(server: VerifyServer, name: str) -> None:
    with server.client() as client:
        refused = client.post("/v1/chat/completions", json={**CHAT, name: 1e131})
        taken = client.post("/v1/chat/completions", json={**CHAT, name: 1e6})
    assert (refused.status_code, taken.status_code) == (400, 200)
    assert name in refused.json()["error"]["message"]
