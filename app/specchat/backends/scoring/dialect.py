"""What the adapters for inference engines have in common: requests to score a draft, answers."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from specchat.errors import first_fault
from specengine.sampling import SamplingParams
from specengine.stream.scoring import Drawn, ScoresError, TopN

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a server was seen to do."""

    token_prompt: bool
    """Takes token ids for a prompt."""
    prompt_top_n: int
    """Most probable tokens that it tells for each position of a prompt."""
    start_offset: bool
    """Scores from a position on, not the whole prompt."""
    cached: bool
    """Evaluates what it scored before from its cache."""
    server_sampling: bool
    """Draws from the distribution that it tells."""


class ServerToken(NamedTuple):
    """A token that the server said, its raw log-probability, and the most probable ones there."""

    token: int
    logprob: float
    top: TopN


class Said(NamedTuple):
    """Tokens that the server said: an answer, or what an event brings of one."""

    tokens: list[ServerToken]
    finished: bool
    """Whether the server says that this was all."""
    n_so_far: int | None = None
    """How many tokens the whole answer has by now, if the server tells."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What one pass over a text and a draft told. `rows`, if the server tells any, are those
    after the text and each draft token: one more than draft tokens.
    """

    logprobs: tuple[float, ...]
    """Of the draft tokens."""
    rows: tuple[TopN, ...]
    said: ServerToken
    """The server's own draw after the whole draft."""


class Request(NamedTuple):
    path: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Drawing:
    """How the server is to draw. Everything is said: what is left out, servers take from files of
    the model.
    """

    params: SamplingParams
    """Truncation, penalties, bias and temperature."""
    ignore_end: bool
    """Go on behind an end token: the client decides where an answer ends."""

    def settings(self, lowest_bias: float) -> dict[str, Any]:
        """As both engines call them; `lowest_bias` bans a token."""
        params = self.params
        settings: dict[str, Any] = {
            "temperature": params.temperature,
            "top_k": params.top_k,
            "top_p": params.top_p or 1e-6,
            "min_p": params.min_p,
            "repetition_penalty": params.repeat_penalty,
            "frequency_penalty": params.frequency_penalty,
            "presence_penalty": params.presence_penalty,
            "ignore_eos": self.ignore_end,
        }
        if params.logit_bias:
            biases = params.logit_bias.items()
            settings["logit_bias"] = {str(token): max(b, lowest_bias) for token, b in biases}
        return settings


RAW = Drawing(
    SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0, repeat_last_n=0), ignore_end=True
)
GREEDY = Drawing(
    SamplingParams(temperature=0, top_k=0, top_p=1, min_p=0, repeat_last_n=0), ignore_end=True
)


class Dialect(ABC):
    """One engine's way of speaking. Nothing here connects to anything.

    What reads an answer raises ScoresError if that is not what was asked for.
    """

    name: ClassVar[str]
    start_offset: ClassVar[bool]
    cached: ClassVar[bool]
    takes_seed: ClassVar[bool]
    """Whether a seed repeats what the server draws by itself."""

    @abstractmethod
    def request(
        self,
        prompt: Sequence[int] | str,
        drawing: Drawing = RAW,
        *,
        max_tokens: int = 1,
        top_n: int = 0,
        n: int = 1,
    ) -> Request:
        """Go on from `prompt`, `n` times; of a text the ids are told, too."""

    @abstractmethod
    def said(self, answer: Any, top_n: int) -> list[Said]:
        """What came of each of the `n`."""

    @abstractmethod
    def score(self, text: Sequence[int], draft: Sequence[int], top_n: int) -> Request:
        """Evaluate text and draft in one pass and say one token more."""

    @abstractmethod
    def scored(
        self, answer: Any, text: Sequence[int], draft: Sequence[int], top_n: int
    ) -> Scored: ...

    @abstractmethod
    def encoded(self, answer: Any) -> list[int]:
        """The ids of a text, with whatever the tokenizer puts before it."""

    def drawn(self, answer: Any, n: int) -> list[Drawn]:
        """`n` independent draws."""
        tokens = [token for said in self.said(answer, 0) for token in said.tokens]
        require(len(tokens) == n, f"{len(tokens)} draws of {n}")
        return [Drawn(token.token, math.exp(token.logprob)) for token in tokens]


class Events:
    """The events of one stream, in order."""

    def __init__(self, dialect: Dialect, top_n: int) -> None:
        self.finished = False
        """Whether the server has said that this was all."""
        self._dialect = dialect
        self._top_n = top_n
        self._seen = 0

    def read(self, data: str) -> list[ServerToken]:
        """The tokens that an event brings. Raises ScoresError."""
        try:
            content = json.loads(data)
        except ValueError:
            raise ScoresError("events that are not JSON") from None
        if isinstance(content, dict) and "error" in content:
            raise ScoresError(f"the server reports an error: {content['error']}")
        tokens: list[ServerToken] = []
        for tokens, finished, n_so_far in self._dialect.said(content, self._top_n)[:1]:
            self.finished |= finished
            if len(tokens) == n_so_far:  # some servers repeat all of it in each event
                tokens = tokens[self._seen :]
            self._seen += len(tokens)
        return tokens


class Part(BaseModel):
    """Of an answer; what it has besides is of no interest."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def parsed(kind: type[M], answer: Any) -> M:
    """Raises ScoresError."""
    try:
        return kind.model_validate(answer)
    except ValidationError as error:
        raise ScoresError(f"an answer that cannot be right: {first_fault(error)}") from None


def require(condition: bool, what: str) -> None:
    """Raises ScoresError, `what`, unless the condition holds."""
    if not condition:
        raise ScoresError(what)


def known(logprob: float | None) -> float:
    """Raises ScoresError for one that is missing."""
    if logprob is None:
        raise ScoresError("a log-probability is missing")
    return logprob


def best(logprobs: Mapping[int, float], top_n: int) -> TopN:
    """The `top_n` best; a token that was asked for may come with them. Raises ScoresError."""
    ordered = sorted(logprobs.items(), key=lambda entry: (-entry[1], entry[0]))
    return TopN(tuple(ordered[:top_n])).checked(top_n)


def server_tokens(
    ids: Sequence[int],
    logprobs: Sequence[float | None],
    tops: Sequence[Mapping[int, float]],
    top_n: int,
) -> list[ServerToken]:
    """`tops`: the most probable tokens at each place, of which nothing is read where `top_n` is 0.

    Raises ScoresError.
    """
    rows = tops if top_n and tops else [{}] * len(ids)
    require(len(logprobs) == len(ids), "log-probabilities are missing")
    require(len(rows) == len(ids), "most probable tokens are missing")
    return [
        ServerToken(token, known(logprob), best(row, top_n))
        for token, logprob, row in zip(ids, logprobs, rows, strict=True)
    ]
