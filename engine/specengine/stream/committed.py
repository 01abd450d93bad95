"""Events of a target that goes on by itself: tokens that are committed, and the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specengine.core.logprobs import TokenLogprobs

EndReason = Literal["stop", "length", "cancelled", "shutdown", "error"]


@dataclass(frozen=True, slots=True)
class Committed:
    """What one target pass added: `tokens` at positions `pos`… of the text.

    `drafted` hints were in the pass; the first `accepted` of them were accepted. `margins` has, for
    each token, how far the largest logit of its row lies above the second. `logprobs` has one for
    each token if they were asked for. `pass_s` are the seconds of the pass, None if unknown.
    """

    pos: int
    tokens: tuple[int, ...]
    margins: tuple[float, ...]
    accepted: int
    drafted: int
    logprobs: tuple[TokenLogprobs, ...] = ()
    pass_s: float | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing follows. `end_token` is the end-of-generation token that was drawn, if one was."""

    reason: EndReason
    end_token: int | None = None
    error: str | None = None


Event = Committed | Ended
