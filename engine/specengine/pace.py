"""Whether a draft is worth one more token, decided while it is made.

What a draft token is drawn from tells how sure the drafter is. Stopping before a token is drawn
leaves the output's distribution alone, whatever decides it: the prefix, the tokens drawn before,
and the distribution q that it would be drawn from. Dropping a token that was drawn would not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from specengine.survival import Survival


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


class AdaptivePace:
    """Goes on while the next token is expected to come faster than tokens do otherwise."""

    def __init__(
        self,
        survival: Survival,
        kind: str,
        prior: float,
        rate: float,
        draft_seconds: Callable[[int], float],
        pass_seconds: Callable[[int], float],
    ) -> None:
        """`rate`: tokens a second that the draft is expected to make as a whole.
        `draft_seconds(k)`: of k draft tokens; `pass_seconds(n)`: of a target pass over n tokens.
        """
        self._survival = survival
        self._kind, self._prior = kind, prior
        self._rate = rate
        self._draft_seconds = draft_seconds
        self._pass_seconds = pass_seconds
        self._drawn = 0
        self._chance = 1.0  # that all tokens drawn so far stand

    def another(self) -> bool:
        if not self._drawn:
            return True  # that was decided when the draft was
        usual = self._survival.usual(self._kind, self._drawn, self._prior)
        draft_s = self._draft_seconds(self._drawn + 1) - self._draft_seconds(self._drawn)
        return self._pays(usual, draft_s + self._wider_s())

    def draws(self, confidence: float) -> bool:
        sure = self._survival.sure(self._kind, self._drawn, confidence)
        if not self._pays(sure, self._wider_s()):
            return False
        self._drawn += 1
        self._chance *= sure
        return True

    def _pays(self, acceptance: float, seconds: float) -> bool:
        return self._chance * acceptance >= self._rate * seconds

    def _wider_s(self) -> float:
        """What one more token adds to the target's pass."""
        return self._pass_seconds(self._drawn + 2) - self._pass_seconds(self._drawn + 1)
