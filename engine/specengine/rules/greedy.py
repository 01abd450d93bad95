"""Greedy: a draft token stands iff it is the target's most probable token. For temperature 0."""

from __future__ import annotations

from collections.abc import Callable

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft, Verdict
from specengine.core.errors import SamplingError
from specengine.sampling.params import SamplingParams


def verify_greedy(draft: Draft, p: Callable[[int], Distribution]) -> Verdict:
    """The longest part of the draft that the target would have chosen, then its own choice."""
    for i, token in enumerate(draft.tokens):
        best = p(i).argmax()
        if token != best:
            return Verdict(i, best)
    return Verdict(len(draft), p(len(draft)).argmax())


class GreedyRule:
    name = "greedy"

    def __init__(self, params: SamplingParams) -> None:
        if params.temperature != 0:
            raise SamplingError(
                f"the rule 'greedy' needs temperature 0, not {params.temperature}: set the "
                "temperature to 0, or choose 'block', 'token' or 'coupled'"
            )

    def draw(self, q: Distribution, position: int) -> int:
        return q.argmax()

    def verify(self, draft: Draft, p: Callable[[int], Distribution], position: int) -> Verdict:
        return verify_greedy(draft, p)
