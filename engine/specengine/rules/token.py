"""Token-level verification: modified rejection sampling (Leviathan et al. 2022, Chen et al. 2023).

A draft token x drawn from q stands with probability min(1, p(x) / q(x)); the first that does not is
replaced by a draw from the normalised (p - q)+. Every emitted token is then distributed as p.
"""

from __future__ import annotations

from collections.abc import Callable

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft, Draw, Verdict
from specengine.rules.residual import drawn_from, residual, sample_residual
from specengine.rules.sampled import SampledRule


def verify_token(
    draft: Draft,
    p: Callable[[int], Distribution],
    uniform: Callable[[], float],
    draws: list[Draw] | None = None,
) -> Verdict:
    """Verify one token after the other; `uniform` yields independent draws from [0, 1).

    What decided is appended to `draws`.
    """
    for i, token in enumerate(draft.tokens):
        target = p(i)
        q = drawn_from(draft, i, target)
        u = uniform()
        if draws is not None:
            draws.append(Draw(i, u, min(1, target.prob(token) / q.prob(token))))
        if not u * q.prob(token) < target.prob(token):
            return Verdict(i, sample_residual(residual(target, q), target, uniform()))
    return Verdict(len(draft), p(len(draft)).sample(uniform()))


class TokenRule(SampledRule):
    name = "token"

    def verify(self, draft: Draft, p: Callable[[int], Distribution], position: int) -> Verdict:
        return verify_token(draft, p, self._uniform, self.draws)
