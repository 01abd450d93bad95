"""Block verification (Sun et al. 2024, "Block verification accelerates speculative decoding").

Verifies the draft jointly: a token that the ratio test would reject may stand because later ones
make up for it. The text is distributed as with `token`, and in expectation never fewer draft tokens
are accepted. With P_0 = 1 and, for the draft tokens x_1..x_k,

    P_i = min(1, P_{i-1} p_i(x_i) / q_i(x_i))
    S_i = sum over x of (P_i p_{i+1}(x) - q_{i+1}(x))+
    h_i = S_i / (S_i + 1 - P_i) for i < k (0/0 is 1),    h_k = P_k

the largest i with a uniform draw below h_i stands (h_0 = 1; a failure does not end the search),
followed by a draw from p_{k+1} if i = k, else from the normalised (P_i p_{i+1} - q_{i+1})+.
"""

from __future__ import annotations

from collections.abc import Callable

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft, Draw, Verdict
from specengine.rules.residual import drawn_from, residual, sample_residual
from specengine.rules.sampled import SampledRule


def verify_block(
    draft: Draft,
    p: Callable[[int], Distribution],
    uniform: Callable[[], float],
    draws: list[Draw] | None = None,
) -> Verdict:
    """Verify the whole draft; `uniform` yields independent draws from [0, 1).

    What decided is appended to `draws`: for the draft token at index i - 1, whether the first i
    tokens may stand, with h_i as limit.
    """
    joint: float = 1  # P_i
    standing = []  # every i that may stand, with what a correction after it needs
    for i, token in enumerate(draft.tokens):
        target = p(i)
        q = drawn_from(draft, i, target)
        if i == 0 or _stands(i - 1, _chance(target, q, joint), uniform, draws):
            standing.append((i, joint, target, q))
        joint = min(1, joint * target.prob(token) / q.prob(token))
        if joint == 0:
            break  # nothing from here on can stand
    if not draft or _stands(i, joint, uniform, draws):
        return Verdict(len(draft), p(len(draft)).sample(uniform()))
    accepted, joint, target, q = standing[-1]
    return Verdict(accepted, sample_residual(residual(target, q, joint), target, uniform()))


def _chance(p: Distribution, q: Distribution, joint: float) -> float:
    """h_i, from P_i and the distributions of the token after the first i."""
    if joint == 1:
        return 1
    mass: float = residual(p, q, joint).probs.sum()  # S_i
    return mass / (mass + 1 - joint)


def _stands(
    index: int, limit: float, uniform: Callable[[], float], draws: list[Draw] | None
) -> bool:
    """Whether a draw falls below `limit`; drawn only where that is not certain."""
    u = uniform() if 0 < limit < 1 else None
    if draws is not None:
        draws.append(Draw(index, u, limit))
    return limit == 1 if u is None else u < limit


class BlockRule(SampledRule):
    name = "block"

    def verify(self, draft: Draft, p: Callable[[int], Distribution], position: int) -> Verdict:
        return verify_block(draft, p, self._uniform, self.draws)
