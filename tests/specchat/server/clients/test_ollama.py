"""Ollama's own client, where it is installed (the dependency group `clients`)."""

from __future__ import annotations

from typing import Any

import pytest

from support.verify_server import VerifyServer

ollama = pytest.importorskip("ollama")

ASK: dict[str, Any] = {"model": "tiny", "options": {"num_predict": 12, "seed": 3, "temperature": 0}}
MESSAGES = [{"role": "user", "content": "Count to five."}]


@pytest.fixture
def client(server: VerifyServer) -> Any:
    return ollama.Client(host=server.url, trust_env=False)


def test_a_chat_whole_and_streamed(client: Any) -> None:
    whole = client.chat(**ASK, messages=MESSAGES)
    assert whole.message.content
    assert whole.done
    parts = list(client.chat(**ASK, messages=MESSAGES, stream=True))
    assert "".join(part.message.content for part in parts)
    assert parts[-1].eval_count == whole.eval_count


def test_text_is_generated(client: Any) -> None:
    assert client.generate(**ASK, prompt="Count to five.").response
    schema = {"type": "object", "properties": {"n": {"enum": [1]}}, "required": ["n"]}
    asked = {**ASK, "options": {"num_predict": 60}}
    assert client.generate(**asked, prompt="Count.", format=schema).response.startswith("{")


def test_the_model_is_described(client: Any) -> None:
    assert [model.model for model in client.list().models] == ["tiny"]
    assert client.show("tiny").capabilities == ["completion"]


def test_errors_are_of_the_clients_class(client: Any) -> None:
    with pytest.raises(ollama.ResponseError, match="think is not supported"):
        client.chat(**ASK, messages=MESSAGES, think=True)
