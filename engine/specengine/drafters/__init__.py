"""Drafters: every way of guessing what the target says next.

A drafter may be as wrong as it likes; the acceptance rule needs only the distribution that each
draft token was really drawn from.
"""

from __future__ import annotations

from typing import Protocol

from specengine.cancel import AbortFlag
from specengine.control.controller import Offer
from specengine.control.pace import Pace
from specengine.draft import Draft
from specengine.sequence import Tokens


class Drafter(Protocol):
    """Proposes draft tokens after a prefix."""

    @property
    def name(self) -> str: ...

    @property
    def draft_s(self) -> float:
        """Seconds spent inside a draft model so far; 0 for drafters without one."""
        ...

    @property
    def abort(self) -> AbortFlag | None:
        """Stops its draft model from another thread; None for drafters without one."""
        ...

    @property
    def notice(self) -> str | None:
        """Why this drafter has stopped proposing, where a person should know."""
        ...

    def offer(self, prefix: Tokens) -> Offer | None:
        """What it could propose after `prefix`, and at what cost; None where it has no guess."""
        ...

    def propose(self, prefix: Tokens, k: int) -> Draft:
        """At most `k` tokens that may follow `prefix`, the prefix of the last `offer`."""
        ...


class PacedDrafter(Drafter, Protocol):
    """Whose offers are `paced`."""

    def propose(self, prefix: Tokens, k: int, pace: Pace | None = None) -> Draft:
        """As `Drafter.propose`; where there is a `pace`, it is asked before each token."""
        ...
