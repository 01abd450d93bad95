"""What clients send, checked before anything is done with it. Unknown keys are ignored."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
)

from specengine.core.limits import MAX_LOGPROBS
from specengine.sampling import SamplingParams
from specengine.sampling.grammar import MAX_BYTES

FEATURES = ("grammar", "logprobs")
"""Optional features of the protocol that this server has."""

PROTOCOL = 1
"""The version of the protocol that this program speaks."""


def _is_number(value: Any) -> Any:
    if isinstance(value, bool | str):  # which pydantic would turn into one
        raise ValueError("must be a number")
    return value


Integer = Annotated[int, BeforeValidator(_is_number)]
Real = Annotated[float, BeforeValidator(_is_number)]
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
TokenId = Annotated[int, Field(ge=0, lt=2**31, strict=True)]


class Sampling(SamplingParams):
    """How tokens are drawn. Unknown settings are refused, since they would change the text."""

    @field_validator(*SamplingParams.model_fields, mode="before")
    @classmethod
    def _settings_are_numbers(cls, value: Any) -> Any:
        return _is_number(value)


def _has_no_seed(settings: Sampling) -> Sampling:
    if settings.seed is not None:  # which would be overruled
        raise ValueError("seed is a field of the request, not of sampling")
    return settings


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)


class Versions(_Message):
    """The versions of the protocol that a client speaks, both included."""

    min: Integer
    max: Integer


class NewSession(_Message):
    protocol: Versions
    model: str | None = None
    """The model that the client expects. Absent: whichever is served."""
    vocab_fingerprint: str | None = None
    """Hash of the vocabulary that the client has. Absent: it takes the server's."""


class Generate(_Message):
    base: Integer = Field(ge=0)
    """How many tokens of the session's transcript to keep; those after them are dropped."""
    base_hash: Hash
    """Hash of the tokens that are kept."""
    append: list[TokenId]
    """Token ids to append to them."""
    sampling: Annotated[Sampling, AfterValidator(_has_no_seed)] = Sampling()
    seed: Integer = Field(ge=0, lt=2**64)
    max_tokens: Integer | None = Field(None, ge=1)
    """Most tokens to generate. Absent: until the context is full."""
    patience_ms: Real = Field(0.0, ge=0, le=60_000)
    """How long to wait for a hint before a pass without one, in milliseconds."""
    grammar: str | None = Field(None, max_length=MAX_BYTES)
    """What the answer must follow: GBNF whose start symbol is `root`, Lark whose start symbol is
    `start`, or a JSON schema, which begins with a brace.
    """
    grammar_start: Integer | None = Field(None, ge=0)
    """Position of the first token that the grammar applies to. Absent: the first new one."""
    logprobs: Integer | None = Field(None, ge=0, le=MAX_LOGPROBS)
    """How many alternatives to report with each token's log-probability. Absent: no report."""


class Hint(_Message):
    gen: Integer
    pos: Integer = Field(ge=0)
    """Absolute position of the first token."""
    prefix_hash: Hash
    """Hash of all tokens before `pos`."""
    tokens: list[TokenId] = Field(min_length=1)
