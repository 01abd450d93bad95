"""What the ratio rules share: the draft's distribution, and what is left of p without its share."""

from __future__ import annotations

import numpy as np

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft


def drawn_from(draft: Draft, i: int, p: Distribution) -> Distribution:
    """The q of draft token `i`: its point mass where it was chosen deterministically."""
    q = draft.q[i]
    return Distribution.point(draft.tokens[i], p.probs.dtype) if q is None else q


def residual(p: Distribution, q: Distribution, scale: float = 1) -> Distribution:
    """(scale * p - q)+ by token id, over p's ids, not normalised: `probs.sum()` is its mass."""
    return Distribution(p.ids, np.maximum(scale * p.probs - q.probs_of(p.ids), 0))


def sample_residual(rest: Distribution, p: Distribution, u: float) -> int:
    """A token from the normalised residual; from `p` where rounding left the residual no mass."""
    return (rest if rest.probs.sum() > 0 else p).sample(u)
