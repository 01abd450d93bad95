"""OpenAI's own client, where it is installed (the dependency group `clients`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from support.smollm import UNENDING
from support.verify_server import VerifyServer

openai = pytest.importorskip("openai")

ASK: dict[str, Any] = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "Tell a story about a fox."}],
    **{"max_completion_tokens": 24, "seed": 3},
    "logit_bias": {str(token): bias for token, bias in UNENDING.items()},
}
pytestmark = pytest.mark.usefixtures("smollm_step")


@pytest.fixture
def client(server: VerifyServer) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_the_model_is_listed(client: Any) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("gpt-4o")
    assert refused.value.code == "model_not_found"


def test_a_chat_streamed_is_the_chat(client: Any) -> None:
    client.chat.completions.create(**ASK)
    whole = client.chat.completions.create(**ASK)
    text = whole.choices[0].message.content
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage.completion_tokens == 24
    assert whole.usage.prompt_tokens_details.cached_tokens == whole.usage.prompt_tokens - 1
    stream = client.chat.completions.create(
        **ASK, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    parts = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(parts) == text
    assert chunks[-1].usage == whole.usage


class Fox(BaseModel):
    name: Literal["Ferdy", "Fay"]
    is_hungry: bool


def test_a_class_is_parsed(client: Any) -> None:
    asked = {**ASK, "max_completion_tokens": 60, "logit_bias": {}}
    fox = client.chat.completions.parse(**asked, response_format=Fox).choices[0].message.parsed
    assert isinstance(fox, Fox)
    with client.chat.completions.stream(**asked, response_format=Fox) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == fox


def test_log_probabilities(client: Any) -> None:
    told = client.chat.completions.create(**ASK, logprobs=True, top_logprobs=3).choices[0].logprobs
    assert len(told.content) == 24
    assert {len(token.top_logprobs) for token in told.content} == {3}


def test_a_prediction_is_counted(client: Any) -> None:
    text = client.chat.completions.create(**ASK).choices[0].message.content
    predicted = client.chat.completions.create(
        **ASK, prediction={"type": "content", "content": text}
    )
    assert predicted.choices[0].message.content == text
    assert predicted.usage.completion_tokens_details.accepted_prediction_tokens > 0


def test_completions(client: Any) -> None:
    asked = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": 8, "seed": 1}
    whole = client.completions.create(**asked, n=2, logprobs=1)
    assert len(whole.choices) == 2
    streamed = client.completions.create(**asked, stream=True)
    parts = [chunk.choices[0].text for chunk in streamed]
    assert "".join(parts) == whole.choices[0].text


def test_errors_are_of_the_clients_classes(client: Any) -> None:
    long = [{"role": "user", "content": "long " * 600}]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**{**ASK, "messages": long})
    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "messages")
    with pytest.raises(openai.NotFoundError, match="/v1/responses is not supported"):
        client.responses.create(model="tiny", input="Hi")
    with pytest.raises(openai.NotFoundError, match="/v1/embeddings is not supported"):
        client.embeddings.create(model="tiny", input="Hi")
