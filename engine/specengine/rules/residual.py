"""What is left of the target's distribution once the draft's share has been taken from it."""

from __future__ import annotations

import numpy as np

from specengine.distribution import Distribution


def residual(p: Distribution, q: Distribution, scale: float = 1) -> Distribution:
    """(scale * p - q)+ by token id, over p's ids, not normalised: `probs.sum()` is its mass."""
    return Distribution(p.ids, np.maximum(scale * p.probs - q.probs_of(p.ids), 0))


def sample_residual(rest: Distribution, p: Distribution, u: float) -> int:
    """A token from the normalised residual; from `p` where rounding left the residual no mass."""
    return (rest if rest.probs.sum() > 0 else p).sample(u)
