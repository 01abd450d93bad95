"""Requests that editors and agents send, by the names of their fields, and where those stand."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

MESSAGES = [
    {"role": "system", "content": "You are a skilled software engineer."},
    {"role": "user", "content": [{"type": "text", "text": "Say hello."}]},
]
PLAIN = [MESSAGES[0], {"role": "user", "content": "Say hello."}]
# So that tests are short: the programs leave it open, or ask for thousands.
FEW, FEW_OF_OLLAMA = {"max_tokens": 8}, {"num_predict": 8}

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    # github.com/cline/cline: src/core/api/providers/openai.ts, ollama.ts
    "Cline": (
        "/v1/chat/completions",
        {
            **{"model": "tiny", "messages": MESSAGES, "temperature": 0, **FEW},
            **{"stream": True, "stream_options": {"include_usage": True}},
        },
    ),
    "Cline for Ollama": (
        "/api/chat",
        {
            **{"model": "tiny", "messages": PLAIN, "stream": True},
            "options": {"num_ctx": 32768, **FEW_OF_OLLAMA},
        },
    ),
    # github.com/Aider-AI/aider: aider/sendchat.py
    "aider": (
        "/v1/chat/completions",
        {"model": "tiny", "messages": PLAIN, "temperature": 0, "stream": True, **FEW},
    ),
    # github.com/continuedev/continue: core/llm/llms/Ollama.ts
    "Continue": (
        "/api/chat",
        {
            **{"model": "tiny", "messages": PLAIN, "keep_alive": 1800, "stream": True},
            "options": {
                **{"temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": 0.1, **FEW_OF_OLLAMA},
                **{"stop": ["zzz"], "num_ctx": 8192, "num_thread": 4, "use_mmap": True},
            },
        },
    ),
    "Continue's completion": (
        "/api/generate",
        {
            **{"model": "tiny", "prompt": "def add(a, b):", "raw": True, "keep_alive": 1800},
            **{"stream": True, "options": {"temperature": 0.01, "num_ctx": 8192, **FEW_OF_OLLAMA}},
        },
    ),
}


@pytest.mark.parametrize("program", REQUESTS)
def test_what_a_program_sends_is_answered(program: str, client: httpx.Client) -> None:
    path, body = REQUESTS[program]
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    told = [json.loads(line) for line in lines if line != "[DONE]"]
    assert not any("error" in each for each in told)
    if path.startswith("/v1"):
        assert lines[-1] == "[DONE]"
        assert told[-1].get("usage", {"completion_tokens": 8})["completion_tokens"] <= 8
    else:
        assert told[-1]["done"] is True
        assert told[-1]["eval_count"] <= 8


def test_continue_finds_the_context_length_among_a_models_parameters(client: httpx.Client) -> None:
    shown = client.post("/api/show", json={"name": "tiny"}).json()
    pairs = [line.split() for line in shown["parameters"].splitlines()]
    assert {len(pair) for pair in pairs} == {2}
    assert ["num_ctx", "512"] in pairs
