"""What an answer reports while it is made: Progress*, then Chunk*, then exactly one Finished."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from specengine.logprobs import TokenLogprobs
    from specengine.statistics import Statistics

FinishReason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Slow work under way.

    `done` of `total` are bytes (download, load) or tokens (prompt); `total` is 0 while nobody knows
    it. `label` names the file, the model, or what is measured.
    """

    stage: Literal["download", "load", "measure", "prompt"]
    done: int
    total: int
    label: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a round added: complete characters, and the ids that were committed."""

    text: str
    tokens: tuple[int, ...]
    stats: Statistics


@dataclass(frozen=True, slots=True)
class Finished:
    """The whole answer. `text` and `tokens` end at one place: before a stop string or end token."""

    reason: FinishReason
    text: str
    tokens: tuple[int, ...]
    stats: Statistics
    error: str | None = None
    notices: tuple[str, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
