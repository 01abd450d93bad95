"""How often draft tokens stand: by drafter, by its confidence, by position in the draft."""

from __future__ import annotations

from collections import defaultdict

_DECAY = 0.93  # of older rounds at each new one: a few tens of tokens are remembered
_PRIOR_WEIGHT = 2.0  # rounds that the prior counts for


class Survival:
    """Conditional acceptance at each position: given that all draft tokens before it stood.

    Positions that were seldom reached lean on the one before them, the first on a prior.
    """

    def __init__(self) -> None:
        self._stood: defaultdict[str, list[float]] = defaultdict(list)
        self._tried: defaultdict[str, list[float]] = defaultdict(list)

    def observe(self, kind: str, drafted: int, accepted: int) -> None:
        """A draft of `kind` had `drafted` tokens, of which the first `accepted` stood."""
        reached = min(drafted, accepted + 1)
        stood, tried = self._stood[kind], self._tried[kind]
        missing = reached - len(tried)
        stood.extend([0.0] * missing)
        tried.extend([0.0] * missing)
        for i in range(reached):
            stood[i] = _DECAY * stood[i] + (i < accepted)
            tried[i] = _DECAY * tried[i] + 1

    def cumulative(self, kind: str, k: int, prior: float) -> list[float]:
        """For i = 1 … k, the chance that the first i draft tokens all stand."""
        stood, tried = self._stood[kind], self._tried[kind]
        result = []
        chance, rate = 1.0, prior
        for i in range(k):
            if i < len(tried):
                rate = (stood[i] + _PRIOR_WEIGHT * rate) / (tried[i] + _PRIOR_WEIGHT)
            chance *= rate
            result.append(chance)
        return result
