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

from specengine.distribution import Distribution
from specengine.draft import Draft, Verdict
from specengine.rules.residual import drawn_from, residual, sample_residual
from specengine.rules.sampled import SampledRule


def verify_block(
    draft: Draft, p: Callable[[int], Distribution], uniform: Callable[[], float]
) -> Verdict:
    """Verify the whole draft; `uniform` yields independent draws from [0, 1)."""
    joint: float = 1  # P_i
    standing = []  # every i that may stand, with what a correction after it needs
    for i, token in enumerate(draft.tokens):
        target = p(i)
        q = drawn_from(draft, i, target)
        if i == 0 or joint == 1 or _stands(joint, residual(target, q, joint), uniform()):
            standing.append((i, joint, target, q))
        joint = min(1, joint * target.prob(token) / q.prob(token))
        if joint == 0:
            break  # nothing from here on can stand
    if uniform() < joint:
        return Verdict(len(draft), p(len(draft)).sample(uniform()))
    accepted, joint, target, q = standing[-1]
    return Verdict(accepted, sample_residual(residual(target, q, joint), target, uniform()))


def _stands(joint: float, rest: Distribution, u: float) -> bool:
    """Whether u < h_i, given P_i < 1 and the residual that holds the mass S_i."""
    mass = rest.probs.sum()
    return bool(u * (mass + 1 - joint) < mass)


class BlockRule(SampledRule):
    name = "block"

    def verify(self, draft: Draft, p: Callable[[int], Distribution], position: int) -> Verdict:
        return verify_block(draft, p, self._uniform)
