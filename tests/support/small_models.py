"""Small random pairs of models with rational probabilities, and rounds of speculation on them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft, Verdict
from support.exact import outcomes

Prefix = tuple[int, ...]
Draws = Callable[[], Any]  # a Uniform where the rules expect a float
Draw = Callable[[Distribution, Draws], int]
Verify = Callable[[Draft, Callable[[int], Distribution], Draws], Verdict]


def distribution(probs: dict[int, Fraction]) -> Distribution:
    ids = sorted(probs)
    exact = np.array([probs[i] for i in ids], dtype=object)
    return Distribution(np.array(ids, dtype=np.int32), exact)


@dataclass(frozen=True)
class SmallPair:
    """A target and a drafter: a distribution for every prefix of up to k tokens."""

    k: int
    target: dict[Prefix, Distribution]
    drafter: dict[Prefix, Distribution | int]
    """What is drafted: a draw from a distribution, or one token chosen deterministically."""

    def joint(self) -> dict[Prefix, Fraction]:
        """The target's distribution over all texts of k + 1 tokens."""
        texts: dict[Prefix, Fraction] = {(): Fraction(1)}
        for _ in range(self.k + 1):
            texts = {
                (*text, int(x)): mass * px
                for text, mass in texts.items()
                for x, px in zip(self.target[text].ids, self.target[text].probs, strict=True)
                if px
            }
        return texts


@cache
def random_pair(seed: int) -> SmallPair:
    """Up to 4 tokens with gaps between their ids, up to 4 draft tokens, many zero probabilities."""
    rng = random.Random(seed)
    k = rng.randint(1, 4)
    vocabulary = sorted(rng.sample(range(9), rng.randint(2, 4)))
    deterministic = rng.random() < 0.2
    target: dict[Prefix, Distribution] = {}
    drafter: dict[Prefix, Distribution | int] = {}
    for prefix in _prefixes(vocabulary, k):
        p = target[prefix] = _random_distribution(rng, vocabulary)
        q = p if rng.random() < 0.1 else _random_distribution(rng, vocabulary)
        drafter[prefix] = rng.choice(vocabulary) if deterministic else q
    return SmallPair(k, target, drafter)


def _prefixes(vocabulary: list[int], longest: int) -> Iterator[Prefix]:
    level: list[Prefix] = [()]
    for _ in range(longest + 1):
        yield from level
        level = [(*prefix, x) for prefix in level for x in vocabulary]


def _random_distribution(rng: random.Random, vocabulary: list[int]) -> Distribution:
    n = len(vocabulary)
    support = rng.sample(vocabulary, max(rng.randint(1, n), rng.randint(1, n)))
    weights = {x: Fraction(rng.randint(1, 5)) for x in support}
    if rng.random() < 0.1:  # a probability of 0 may be listed
        weights.setdefault(rng.choice(vocabulary), Fraction(0))
    return distribution({x: w / sum(weights.values()) for x, w in weights.items()})


@dataclass(frozen=True)
class RoundLaw:
    """What one round does, exactly."""

    texts: dict[Prefix, Fraction]
    """Distribution of its tokens, continued by the target to k + 1."""
    accepted: Fraction
    """Expected number of accepted draft tokens."""


def draw_from(q: Distribution, uniform: Draws) -> int:
    return q.sample(uniform())


def law_of_round(pair: SmallPair, verify: Verify, draw: Draw = draw_from) -> RoundLaw:
    """`draw` is how the drafter takes a token from its q; what it is given is what is verified."""

    def play(uniform: Draws) -> tuple[Prefix, int]:
        draft = Draft()
        for _ in range(pair.k):
            q = pair.drafter[tuple(draft.tokens)]
            if isinstance(q, int):
                draft.append(q, None)
            else:
                draft.append(draw(q, uniform), q)
        verdict = verify(draft, lambda i: pair.target[tuple(draft.tokens[:i])], uniform)
        return (*draft.tokens[: verdict.accepted], verdict.token), verdict.accepted

    emitted: dict[Prefix, Any] = defaultdict(Fraction)
    expected = Fraction(0)
    for mass, (text, accepted) in outcomes(play):
        emitted[text] += mass
        expected += mass * accepted
    return RoundLaw(_continued(pair, emitted), expected)


def _continued(pair: SmallPair, emitted: dict[Prefix, Fraction]) -> dict[Prefix, Fraction]:
    texts: dict[Prefix, Any] = defaultdict(Fraction)
    while emitted:
        longer: dict[Prefix, Any] = defaultdict(Fraction)
        for text, mass in emitted.items():
            if len(text) == pair.k + 1:
                texts[text] += mass
                continue
            p = pair.target[text]
            for x, px in zip(p.ids, p.probs, strict=True):
                longer[(*text, int(x))] += mass * px
        emitted = longer
    return {text: mass for text, mass in texts.items() if mass}
