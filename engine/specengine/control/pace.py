"""Whether a draft is worth one more token, decided while it is made.

What a draft token is drawn from tells how sure the drafter is. Stopping before a token is drawn
leaves the output's distribution alone, whatever decides it: the prefix, the tokens drawn before,
and the distribution q that it would be drawn from. Dropping a token that was drawn would not.
"""

from __future__ import annotations

from collections.abc import Callable

from specengine.control.survival import Survival


class AdaptivePace:
    """Goes on while some number of further tokens is expected to come faster than tokens do
    otherwise: one alone may cost more than it brings where the next few cost next to nothing (a
    pass over two tokens takes nearly as long as one over five in kernels that work in blocks).
    """

    def __init__(
        self,
        survival: Survival,
        kind: str,
        prior: float,
        rate: float,
        draft_seconds: Callable[[int], float],
        pass_seconds: Callable[[int], float],
        longest: int,
    ) -> None:
        """`rate`: tokens a second that the draft is expected to make as a whole.
        `draft_seconds(k)`: of k draft tokens; `pass_seconds(n)`: of a target pass over n tokens.
        """
        self._survival = survival
        self._kind = kind
        self._usual = survival.usual(kind, longest, prior)
        self._rate = rate
        self._draft_seconds = draft_seconds
        self._pass_seconds = pass_seconds
        self._drawn = 0
        self._chance = 1.0  # that all tokens drawn so far stand

    def another(self) -> bool:
        if not self._drawn:
            return True  # that was decided when the draft was
        return self._pays(self._usual[self._drawn], passes=self._drawn)

    def draws(self, confidence: float) -> bool:
        sure = self._survival.sure(self._kind, self._drawn, confidence)
        if not self._pays(sure, passes=self._drawn + 1):
            return False
        self._drawn += 1
        self._chance *= sure
        return True

    def _pays(self, acceptance: float, passes: int) -> bool:
        """Whether the next token, with that acceptance, or some more after it are worth their time.
        So many draft `passes` have been made.
        """
        spent = self._draft_seconds(passes) + self._pass_seconds(self._drawn + 1)
        chance, tokens = self._chance, 0.0
        following = (acceptance, *self._usual[self._drawn + 1 :])
        for k, stands in enumerate(following, self._drawn + 1):
            chance *= stands
            tokens += chance
            seconds = self._draft_seconds(k) + self._pass_seconds(k + 1) - spent
            if tokens >= self._rate * seconds:
                return True
        return False
