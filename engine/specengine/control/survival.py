"""How often draft tokens stand: by kind of draft, by position in the draft, in the present text."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from operator import mul

_DECAY = 0.9  # of older rounds at each new one: a few tens of tokens are remembered
_PRIOR_WEIGHT = 3.0  # rounds that the prior counts for
_LUCK_WEIGHT = 2.0  # rounds of average luck that every text is taken to begin with
_KEPT = 6.0  # rounds of an earlier text that a kind without siblings still counts
_CONFIDENCES = (0.3, 0.5, 0.7, 0.9, 0.97)  # where one bucket ends and the next begins
_LATER = 3  # positions from this one on have their buckets together
_SURE_DECAY = 0.98  # of a bucket: how confidence translates depends little on the text


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
        self._sure: defaultdict[_Bucket, list[float]] = defaultdict(lambda: [0.0, 0.0])

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
        self,
        kind: str,
        drafted: int,
        accepted: int,
        *,
        prior: float = 0.5,
        family: str = "",
        confidence: Sequence[float] = (),
    ) -> None:
        """A draft of `kind` had `drafted` tokens, of which the first `accepted` stood.

        `prior` and `family` are those of `cumulative`. `confidence`: of each token as in `sure`,
        where it is known; one more is that of a token that was not drawn for lack of it.
        """
        known = self._kinds[kind]
        known.family = family
        reached = min(drafted, accepted + 1)
        known.observe([float(i < accepted) for i in range(reached)])
        for i, sure in enumerate(confidence[:reached]):
            self._observe_sure(kind, i, sure, i < accepted)
        if len(confidence) > drafted == accepted:
            # Else a position would seem to stand more often for being left out when unsure.
            known.observe([self.sure(kind, drafted, confidence[drafted])], drafted)
        if family:
            self._luck[family].observe(prior, accepted > 0)

    def sure(self, kind: str, position: int, confidence: float) -> float:
        """Acceptance of the draft token at `position`, if all before it stand, given the highest
        probability of what it is drawn from.

        Draft models were measured to be right about as often as they say, which is the prior.
        """
        rate = confidence
        for bucket in _buckets(kind, position, confidence):
            stood, tried = self._sure[bucket]
            rate = (stood + _PRIOR_WEIGHT * rate) / (tried + _PRIOR_WEIGHT)
        return rate

    def usual(self, kind: str, k: int, prior: float) -> list[float]:
        """Acceptance of each of the first `k` draft tokens, if all before it stand."""
        return self._kinds[kind].rates(k, prior)

    def _observe_sure(self, kind: str, position: int, confidence: float, stands: bool) -> None:
        for bucket in _buckets(kind, position, confidence):
            counts = self._sure[bucket]
            counts[0] = _SURE_DECAY * counts[0] + stands
            counts[1] = _SURE_DECAY * counts[1] + 1

    def cumulative(self, kind: str, k: int, prior: float, family: str = "") -> list[float]:
        """For i = 1 … k, the chance that the first i draft tokens all stand.

        `prior`: acceptance of a first draft token of `kind`, over texts of all sorts. Kinds of one
        `family` share their luck; none shares that of "".
        """
        if family in self._luck:
            prior = self._luck[family].shifted(prior)
        return list(accumulate(self._kinds[kind].rates(k, prior), mul))


_Bucket = tuple[str, int | None, int]
"""Kind, position (None: all positions), interval of confidence."""


def _buckets(kind: str, position: int, confidence: float) -> tuple[_Bucket, _Bucket]:
    """Where a draft token counts, the wider bucket first."""
    interval = bisect(_CONFIDENCES, confidence)
    return (kind, None, interval), (kind, min(position, _LATER), interval)


class _Kind:
    """Rounds of one kind of draft: decayed counts for each position."""

    def __init__(self) -> None:
        self.family = ""
        self._stood: list[float] = []
        self._tried: list[float] = []

    def observe(self, stood: Sequence[float], start: int = 0) -> None:
        """How far the draft tokens from position `start` on stood: 1, 0, or a chance."""
        missing = start + len(stood) - len(self._tried)
        if missing > 0:
            self._stood.extend([0.0] * missing)
            self._tried.extend([0.0] * missing)
        for i, stands in enumerate(stood, start):
            self._stood[i] = _DECAY * self._stood[i] + stands
            self._tried[i] = _DECAY * self._tried[i] + 1

    def rates(self, k: int, prior: float) -> list[float]:
        result = []
        rate = prior
        for i in range(k):
            if i < len(self._tried):
                rate = (self._stood[i] + _PRIOR_WEIGHT * rate) / (self._tried[i] + _PRIOR_WEIGHT)
            result.append(rate)
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
