"""What an answer reports while it is made: Progress*, then Chunk*, then exactly one Finished.

When a remote target is out of reach and the draft model goes on, chunks are unverified, and
Reviewed comes between them once the target is back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from specengine.core.logprobs import TokenLogprobs
    from specengine.core.statistics import Statistics

FinishReason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Slow work under way.

    `done` of `total` are bytes (download, load) or tokens (prompt); `total` is 0 while nobody knows
    it. `label` names the file, the model, or what is measured; with "wait", what is waited for.
    """

    stage: Literal["download", "load", "convert", "measure", "prompt", "wait"]
    done: int
    total: int
    label: str


@dataclass(frozen=True, slots=True)
class Unverified:
    """Where the words of the draft model begin in an answer, which the target has not verified:
    `tokens[token:]`, and `text[char:]`.
    """

    token: int
    char: int
    writer: str
    """The draft model's name."""
    seed: int
    """Seed of the noise, with which the target says what it would have said then."""


@dataclass(frozen=True, slots=True)
class Version:
    """An answer as it was shown, up to where it stands."""

    text: str
    tokens: tuple[int, ...]
    unverified: Unverified | None
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a round added: complete characters, and the ids that were committed."""

    text: str
    tokens: tuple[int, ...]
    stats: Statistics
    unverified: Unverified | None = None
    """Where in the answer, this chunk included, the target has not verified the words."""
    reasoning: str = ""
    """What was thought, before the answer's text."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The target has verified words that were shown before it could: the answer is `now`.

    `replaced` is the answer as it was shown, where the target goes on differently.
    """

    now: Version
    replaced: Version | None
    stats: Statistics


@dataclass(frozen=True, slots=True)
class Finished:
    """The whole answer. `text` and `tokens` end at one place: before a stop string or end token.
    `tokens` begin with those of the thought, where there was one.
    """

    reason: FinishReason
    text: str
    tokens: tuple[int, ...]
    stats: Statistics
    error: str | None = None
    notices: tuple[str, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    unverified: Unverified | None = None
    replaced: tuple[Version, ...] = ()
    """What was shown meanwhile and the target would not have said: see `Reviewed`."""
    rule: str | None = None
    """The acceptance rule's name; None if nothing was, or could have been, verified."""
    reasoning: str = ""
    """What was thought before the answer, without marks."""
    answer_at: int = 0
    """Index of the answer's first token in `tokens`: those before are the thought and its marks."""
