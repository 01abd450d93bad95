"""Acceptance rules: how many draft tokens stand, and which token comes next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft, Verdict
from specengine.core.errors import SamplingError
from specengine.rules.block import BlockRule
from specengine.rules.coupled import CoupledRule
from specengine.rules.greedy import GreedyRule
from specengine.rules.token import TokenRule
from specengine.rules.typical import TypicalRule
from specengine.sampling.params import SamplingParams

__all__ = ["LOSSY", "RULES", "AcceptanceRule", "default_rule", "make_rule"]


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


RULES: dict[str, Callable[[SamplingParams], AcceptanceRule]] = {
    "block": BlockRule,
    "coupled": CoupledRule,
    "greedy": GreedyRule,
    "token": TokenRule,
    "typical": TypicalRule,
}

# With these the text is not distributed as the target's; wherever they are used it has to be said.
LOSSY = frozenset({"typical"})


def default_rule(params: SamplingParams) -> str:
    """The name of the rule for a local target where none is asked for."""
    if params.temperature == 0:
        return "greedy"
    # Only shared noise repeats a text whatever the drafter and the draft length.
    return "block" if params.seed is None else "coupled"


def make_rule(name: str | None, params: SamplingParams) -> AcceptanceRule:
    """The rule called `name`, or the default for `params` where it is None.

    Raises SamplingError for an unknown name, and for `greedy` above temperature 0.
    """
    name = default_rule(params) if name is None else name
    if name not in RULES:
        raise SamplingError(f"there is no acceptance rule {name!r}: choose {', '.join(RULES)}")
    return RULES[name](params)
