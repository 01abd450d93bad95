"""What every drafter speaks: its offers, its proposals, and what ends a draft early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from specengine.core.cancel import AbortFlag
from specengine.core.draft import Draft
from specengine.core.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Offer:
    """What a drafter could propose for the present prefix, before it does any work for it."""

    kind: str
    """Drafts of one kind are accepted alike: the drafter, and how sure it is. Acceptance is
    measured for each kind.
    """
    available: int
    """How many draft tokens it could propose."""
    prior: float
    """Expected acceptance rate of the first draft token, until some of this kind were tried."""
    start_s: float = 0.0
    """Seconds before the first draft token: what the drafter's own cache lacks."""
    token_s: float = 0.0
    """Seconds per draft token."""
    together_s: Callable[[int], float] | None = None
    """Seconds for k draft tokens, if that is not k times `token_s`, which is 0 then."""
    family: str = ""
    """Kinds of one family are accepted alike in a text: what fails for one lowers the estimate
    of all.
    """
    paced: bool = False
    """Whether its drafter asks a `Pace` before each draft token."""

    def seconds(self, k: int) -> float:
        """Seconds for `k` draft tokens, after the start."""
        return k * self.token_s if self.together_s is None else self.together_s(k)

    @property
    def is_free(self) -> bool:
        """Whether its draft tokens cost nothing to make."""
        return self.together_s is None and not self.token_s


class Pace(Protocol):
    """Asked by a drafter that can stop at any token."""

    def another(self) -> bool:
        """Before each draft pass: whether what it may bring is worth it."""
        ...

    def draws(self, confidence: float) -> bool:
        """Before a token is drawn from q, whose highest probability is `confidence`: whether it is
        worth a place in the target's pass. Where not, the draft ends.
        """
        ...


class Drafter(Protocol):
    """Proposes draft tokens after a prefix. One without a draft model may inherit from it."""

    @property
    def name(self) -> str: ...

    @property
    def draft_s(self) -> float:
        """Seconds spent inside a draft model so far; 0 for drafters without one."""
        return 0.0

    @property
    def abort(self) -> AbortFlag | None:
        """Stops its draft model from another thread; None for drafters without one."""
        return None

    @property
    def notice(self) -> str | None:
        """Why this drafter has stopped proposing, where a person should know."""
        return None

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
