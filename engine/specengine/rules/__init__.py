"""Acceptance rules: how many draft tokens stand, and which token comes next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from specengine.distribution import Distribution
from specengine.draft import Draft, Verdict
from specengine.errors import SamplingError
from specengine.rules.greedy import GreedyRule
from specengine.rules.token import TokenRule
from specengine.sampling.params import SamplingParams

__all__ = ["AcceptanceRule", "GreedyRule", "TokenRule", "make_rule"]


class AcceptanceRule(Protocol):
    """What `generate` and the drafters need of a rule."""

    @property
    def name(self) -> str: ...

    def draw(self, q: Distribution, position: int) -> int:
        """The token at absolute `position` that a drafter draws from its own distribution `q`."""

    def verify(self, draft: Draft, p: Callable[[int], Distribution], position: int) -> Verdict:
        """How a round ends.

        `p(i)` is the target's distribution after the prefix and `draft.tokens[:i]`,
        0 <= i <= len(draft), computed when asked for. `position` is the absolute position of
        `draft.tokens[0]`, the length of the prefix.
        """


_RULES: dict[str, Callable[[SamplingParams], AcceptanceRule]] = {
    "token": TokenRule,
    "greedy": GreedyRule,
}


def make_rule(name: str | None, params: SamplingParams) -> AcceptanceRule:
    """The rule called `name`, or the default for `params` where it is None."""
    if name is None:
        name = "greedy" if params.temperature == 0 else "token"
    if name not in _RULES:
        raise SamplingError(f"no acceptance rule {name!r}; there are {', '.join(_RULES)}")
    return _RULES[name](params)
