"""The OpenAI protocol as servers really speak it: what goes out, what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.bounds import Count
from specchat.wire.address import Address
from specengine.chat.chat_template import Turn
from specengine.chat.reasoning_format import variables
from specengine.core.think import Think

# What the protocol knows, and what llama-server, vLLM and others understand beside it. Whatever a
# person has not set is the server's choice.
SAMPLING = (
    *("temperature", "top_p", "frequency_penalty", "presence_penalty", "seed"),
    *("top_k", "min_p", "typical_p", "repeat_penalty", "repeat_last_n"),
)
_BAN = -100.0  # the bias that bans a token there


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Delta(_Answer):
    content: str | None = None
    reasoning_content: str | None = None
    """llama-server, vLLM and DeepSeek call it this."""
    reasoning: str | None = None
    """Ollama and OpenRouter call it this."""

    @property
    def thought(self) -> str:
        return self.reasoning_content or self.reasoning or ""


class Choice(_Answer):
    delta: Delta = Delta()
    finish_reason: str | None = None


class CompletionDetails(_Answer):
    reasoning_tokens: Count | None = None
    accepted_prediction_tokens: Count | None = None
    rejected_prediction_tokens: Count | None = None


class Usage(_Answer):
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    completion_tokens_details: CompletionDetails | None = None

    @property
    def reasoning_tokens(self) -> int | None:
        """Tokens of the thought; None if the server does not say."""
        details = self.completion_tokens_details
        return None if details is None else details.reasoning_tokens

    @property
    def prediction(self) -> tuple[int, int] | None:
        """Accepted and rejected tokens of a prediction; None if the server does not say."""
        details = self.completion_tokens_details
        if details is None or details.accepted_prediction_tokens is None:
            return None
        return details.accepted_prediction_tokens, details.rejected_prediction_tokens or 0


class ServerError(_Answer):
    message: str = "the server reports an error"


class Event(_Answer):
    """One event of a stream."""

    choices: list[Choice] = []
    usage: Usage | None = None
    error: ServerError | str | None = None

    @property
    def error_text(self) -> str | None:
        return self.error.message if isinstance(self.error, ServerError) else self.error


class ListedModel(_Answer):
    id: str
    owned_by: str = ""
    """Servers that people run themselves put their own name here: `vllm`, `sglang`, `llamacpp`."""
    max_model_len: Count | None = None


class ModelList(_Answer):
    data: list[ListedModel] = []


def chat_request(
    address: Address,
    model: str,
    turns: Sequence[Turn],
    request: AnswerOptions,
    *,
    prediction: str | None = None,
) -> dict[str, Any]:
    """The body of a request for a streamed answer. `prediction`: text that it may repeat.

    What was thought before earlier answers is not sent: templates leave it out, and some servers
    refuse it.
    """
    # OpenAI itself refuses names that everybody else knows.
    is_openai = address.host.endswith("openai.com")
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": turn.role, "content": turn.text} for turn in turns],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    sampling = request.sampling
    given = sampling.model_dump(mode="json", include=set(sampling.model_fields_set))
    body |= {name: given[name] for name in SAMPLING if given.get(name) is not None}
    if bias := sampling.logit_bias:
        body["logit_bias"] = {token: max(_BAN, b) for token, b in bias.items()}
    if request.max_tokens is not None:
        body["max_completion_tokens" if is_openai else "max_tokens"] = request.max_tokens
    if request.stop:
        body["stop"] = list(request.stop)
    if request.think is not None:
        body |= _thinking(request.think, is_openai)
    if prediction is not None:
        body["prediction"] = {"type": "content", "content": prediction}
    return body


def _thinking(think: Think, is_openai: bool) -> dict[str, Any]:
    """How hard to think is a setting of the protocol, whether to think one of chat templates."""
    if think in ("low", "medium", "high"):
        return {"reasoning_effort": think}
    if is_openai:
        return {"reasoning_effort": "none"} if think == "off" else {}
    return {"chat_template_kwargs": dict(variables(think))}
