"""What the adapters for inference engines have in common: requests to score a draft, answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

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

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class ServerToken(NamedTuple):
    """A token that the server said, its raw log-probability, and the most probable ones there."""

    token: int
    logprob: float
    top: TopN


@dataclass(frozen=True, slots=True)
class Scored:
    """What one pass over a text and a draft told. `rows`, where the server tells any, are those
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


class Events(Protocol):
    """The events of one stream, in order."""

    def read(self, data: str) -> list[ServerToken]:
        """The tokens that an event brings. Raises ScoresError."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the server has said that this was all."""
        ...


@dataclass(frozen=True, slots=True)
class Drawing:
    """How the server is to draw. Everything is said: what is left out, servers take from files of
    the model.
    """

    params: SamplingParams
    """Truncation, penalties, bias and temperature."""
    ignore_end: bool
    """Go on behind an end token: the client decides where an answer ends."""


RAW = Drawing(
    SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0, repeat_last_n=0), ignore_end=True
)
GREEDY = Drawing(
    SamplingParams(temperature=0, top_k=0, top_p=1, min_p=0, repeat_last_n=0), ignore_end=True
)


class Dialect(Protocol):
    """One engine's way of speaking. Nothing here connects to anything.

    What reads an answer raises ScoresError where that is not what was asked for.
    """

    @property
    def name(self) -> str: ...

    @property
    def start_offset(self) -> bool: ...

    @property
    def cached(self) -> bool: ...

    @property
    def takes_seed(self) -> bool:
        """Whether a seed repeats what the server draws by itself."""
        ...

    def score(self, text: Sequence[int], draft: Sequence[int], top_n: int) -> Request:
        """Evaluate text and draft in one pass and say one token more."""
        ...

    def scored(
        self, answer: Any, text: Sequence[int], draft: Sequence[int], top_n: int
    ) -> Scored: ...

    def draw(self, text: Sequence[int], n: int) -> Request:
        """`n` independent draws after `text`."""
        ...

    def drawn(self, answer: Any, n: int) -> list[Drawn]: ...

    def stream(self, text: Sequence[int], drawing: Drawing, max_tokens: int, top_n: int) -> Request:
        """Go on from `text`, token by token."""
        ...

    def events(self, top_n: int) -> Events: ...

    def encode(self, text: str) -> Request:
        """Tell the ids of `text`, with whatever the tokenizer puts before it."""
        ...

    def encoded(self, answer: Any) -> list[int]: ...


class Part(BaseModel):
    """Of an answer; what it has besides is of no interest."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def parsed(kind: type[M], answer: Any, what: str) -> M:
    """Raises ScoresError."""
    try:
        return kind.model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ScoresError(f"{what}: {place}: {first['msg']}") from None


def require(condition: bool, what: str | Callable[[], str]) -> None:
    """Raises ScoresError, `what`, where the condition does not hold."""
    if not condition:
        raise ScoresError(what if isinstance(what, str) else what())
