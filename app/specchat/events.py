"""What happens while a model is loaded or an answer is made, as the runtime reports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from specengine.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Progress:
    """A step on the way to the first token.

    `done` of `total` are bytes for `download` and `load`, tokens for `prompt`; `total` is 0 while
    nobody knows it. `label` names the file or the model.
    """

    stage: Literal["download", "load", "prompt"]
    done: int
    total: int
    label: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one round added: complete characters, and the ids that were committed."""

    text: str
    tokens: tuple[int, ...]
    stats: Statistics


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an answer, always exactly one, after a cancel or an error too.

    `text` and `tokens` are the whole answer. `notices` are lines for the person: what was left
    out or turned off, and why.
    """

    reason: Literal["stop", "length", "cancelled", "error"]
    text: str
    tokens: tuple[int, ...]
    stats: Statistics
    error: str | None = None
    notices: tuple[str, ...] = ()
