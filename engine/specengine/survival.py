"""How often draft tokens stand: by kind of draft, by position in the draft, in the present text."""

from __future__ import annotations

from collections import defaultdict

_DECAY = 0.9  # of older rounds at each new one: a few tens of tokens are remembered
_PRIOR_WEIGHT = 3.0  # rounds that the prior counts for
_LUCK_WEIGHT = 2.0  # rounds of average luck that every text is taken to begin with
_KEPT = 3.0  # rounds of an earlier text that a kind without siblings still counts


class Survival:
    """Conditional acceptance at each position: given that all draft tokens before it stood.

    Positions that were seldom reached lean on the one before them, the first on a prior. Kinds of
    one family fare alike in a text: where it repeats itself all do better than their priors, where
    it does not all do worse. So the odds of each prior are multiplied by the luck of its family:
    how many first draft tokens stood for each that fell, over how many were expected to.
    """

    def __init__(self) -> None:
        self._kinds: defaultdict[str, _Kind] = defaultdict(_Kind)
        self._luck: defaultdict[str, _Luck] = defaultdict(_Luck)

    def begin(self) -> None:
        """Another text: what families are worth in it is unknown. A kind without siblings (a draft
        model) differs less from text to text, and keeps some of what it has shown.
        """
        self._luck.clear()
        self._kinds = defaultdict(
            _Kind, {name: kind for name, kind in self._kinds.items() if not kind.family}
        )
        for kind in self._kinds.values():
            kind.shrink(_KEPT)

    def observe(
        self, kind: str, drafted: int, accepted: int, *, prior: float = 0.5, family: str = ""
    ) -> None:
        """A draft of `kind` had `drafted` tokens, of which the first `accepted` stood.

        `prior` and `family` are those of `cumulative`.
        """
        known = self._kinds[kind]
        known.family = family
        known.observe(min(drafted, accepted + 1), accepted)
        if family:
            self._luck[family].observe(prior, accepted > 0)

    def cumulative(self, kind: str, k: int, prior: float, family: str = "") -> list[float]:
        """For i = 1 … k, the chance that the first i draft tokens all stand.

        `prior`: acceptance of a first draft token of `kind`, over texts of all sorts. Kinds of one
        `family` share their luck; none shares that of "".
        """
        if family in self._luck:
            prior = self._luck[family].shifted(prior)
        return self._kinds[kind].cumulative(k, prior)


class _Kind:
    """Rounds of one kind of draft: decayed counts for each position."""

    def __init__(self) -> None:
        self.family = ""
        self._stood: list[float] = []
        self._tried: list[float] = []

    def observe(self, reached: int, accepted: int) -> None:
        stood, tried = self._stood, self._tried
        missing = reached - len(tried)
        if missing > 0:
            stood.extend([0.0] * missing)
            tried.extend([0.0] * missing)
        for i in range(reached):
            stood[i] = _DECAY * stood[i] + (i < accepted)
            tried[i] = _DECAY * tried[i] + 1

    def cumulative(self, k: int, prior: float) -> list[float]:
        result = []
        chance, rate = 1.0, prior
        for i in range(k):
            if i < len(self._tried):
                rate = (self._stood[i] + _PRIOR_WEIGHT * rate) / (self._tried[i] + _PRIOR_WEIGHT)
            chance *= rate
            result.append(chance)
        return result

    def shrink(self, weight: float) -> None:
        """Count no position for more than `weight` rounds."""
        for i, tried in enumerate(self._tried):
            if tried > weight:
                self._stood[i] *= weight / tried
                self._tried[i] = weight


class _Luck:
    """First draft tokens of a family: how many stood and fell, and how many were expected to."""

    def __init__(self) -> None:
        self._stood = self._fell = self._should_stand = self._should_fall = _LUCK_WEIGHT

    def observe(self, prior: float, stands: bool) -> None:
        self._stood = _decayed(self._stood) + stands
        self._fell = _decayed(self._fell) + (not stands)
        self._should_stand = _decayed(self._should_stand) + prior
        self._should_fall = _decayed(self._should_fall) + 1 - prior

    def shifted(self, prior: float) -> float:
        """The probability whose odds are those of `prior` times the luck."""
        good = prior * self._stood * self._should_fall
        bad = (1 - prior) * self._fell * self._should_stand
        return good / (good + bad)


def _decayed(count: float) -> float:
    return _LUCK_WEIGHT + _DECAY * (count - _LUCK_WEIGHT)
