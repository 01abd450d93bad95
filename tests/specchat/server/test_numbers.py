"""Numbers in requests are numbers."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

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
        ("/v1/chat/completions", {**CHAT, "top_p": "0.5"}),
    ],
)
def test_booleans_and_texts_are_no_numbers(
    client: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    generate = {"base": 0, "base_hash": "0" * 32, "append": [1], "seed": 1}
    response = client.post(path, json={**generate, **body} if path.endswith("generate") else body)
    assert response.status_code == 400
    assert "must be a number" in response.json()["error"]["message"]
