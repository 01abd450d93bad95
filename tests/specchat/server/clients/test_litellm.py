"""LiteLLM, where it is installed (the dependency group `clients`)."""

from __future__ import annotations

import os
from typing import Any

import pytest

from support.verify_server import VerifyServer

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it would ask the network for prices
litellm = pytest.importorskip("litellm")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
MESSAGES = [{"role": "user", "content": "Count to five."}]
ASK: dict[str, Any] = {"messages": MESSAGES, "max_tokens": 12, "temperature": 0}


@pytest.fixture(params=["openai/tiny", "anthropic/tiny", "ollama_chat/tiny"])
def asked(request: pytest.FixtureRequest, server: VerifyServer) -> dict[str, Any]:
    base = f"{server.url}/v1" if request.param.startswith("openai") else server.url
    return {**ASK, "model": request.param, "api_base": base, "api_key": "none", "num_retries": 0}


def test_a_chat_in_every_protocol(asked: dict[str, Any]) -> None:
    whole = litellm.completion(**asked)
    assert whole.choices[0].message.content
    assert 0 < whole.usage.completion_tokens <= 12
    parts = [
        part.choices[0].delta.content or "" for part in litellm.completion(**asked, stream=True)
    ]
    assert "".join(parts)


def test_a_text_that_is_too_long_is_known_as_that(server: VerifyServer) -> None:
    asked = {"model": "openai/tiny", "api_base": f"{server.url}/v1", "api_key": "none"}
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(**asked, messages=[{"role": "user", "content": "long " * 600}])
