"""Anthropic's own client, where it is installed (the dependency group `clients`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.smollm import UNENDING
from support.verify_server import VerifyServer

anthropic = pytest.importorskip("anthropic")

BIAS = {str(token): bias for token, bias in UNENDING.items()}
ASK: dict[str, Any] = {
    **{"model": "tiny", "max_tokens": 16},
    "messages": [{"role": "user", "content": "Count to five."}],
    "extra_body": {"seed": 3, "temperature": 0, "logit_bias": BIAS},
}


@pytest.fixture
def client(server: VerifyServer) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        yield client


def test_a_message_whole_and_streamed(client: Any) -> None:
    message = client.messages.create(**ASK)
    assert message.stop_reason == "max_tokens"
    assert message.usage.output_tokens == 16
    with client.messages.stream(**ASK) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert final.content[0].text == "".join(pieces) != ""
    assert final.usage.output_tokens == 16
    assert final.stop_reason == "max_tokens"


def test_tokens_are_counted(client: Any) -> None:
    asked = {"model": "tiny", "messages": ASK["messages"]}
    counted = client.messages.count_tokens(**asked).input_tokens
    usage = client.messages.create(**ASK).usage
    assert counted == usage.input_tokens + usage.cache_read_input_tokens


def test_errors_are_of_the_clients_classes(client: Any) -> None:
    with pytest.raises(anthropic.BadRequestError, match="tools is not supported"):
        client.messages.create(**ASK, tools=[{"name": "f", "input_schema": {"type": "object"}}])
    long = [{"role": "user", "content": "long " * 600}]
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        client.messages.create(**{**ASK, "messages": long})
