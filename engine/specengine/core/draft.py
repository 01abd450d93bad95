"""What a drafter proposes and what a target answers: the vocabulary of a round."""

from __future__ import annotations

from dataclasses import dataclass, field

from specengine.core.distribution import Distribution
from specengine.core.errors import DraftError
from specengine.core.logprobs import TokenLogprobs

_ROUNDING = 1e-6  # of a sum of probabilities


@dataclass(slots=True)
class Draft:
    """Up to k draft tokens that continue a prefix.

    `q[i]` is the distribution that `tokens[i]` was really drawn from, or None where the token was
    chosen deterministically (greedy pick, lookup): then q is the point mass on the token.
    """

    tokens: list[int] = field(default_factory=list)
    q: list[Distribution | None] = field(default_factory=list)
    confidence: list[float] = field(default_factory=list)
    """How sure each token was (`Transforms.with_confidence`), of drafts that keep a `Pace`. One
    more than there are tokens: the draft ended before a token so unsure was drawn.
    """

    def __len__(self) -> int:
        return len(self.tokens)

    def append(self, token: int, q: Distribution | None) -> None:
        self.tokens.append(token)
        self.q.append(q)

    def check(self, longest: int, n_vocab: int) -> None:
        """Raises DraftError for what no acceptance rule could verify: a drafter's mistake."""
        n = len(self.tokens)
        if n > longest or n != len(self.q):
            raise DraftError(
                f"{n} tokens with {len(self.q)} distributions, but at most {longest} were asked for"
            )
        for token, q in zip(self.tokens, self.q, strict=True):
            if not isinstance(token, int) or not 0 <= token < n_vocab:
                raise DraftError(f"{token!r} is not a token id from 0 to {n_vocab - 1}")
            if q is not None and not (q.prob(token) > 0 and abs(q.probs.sum() - 1) < _ROUNDING):
                raise DraftError(f"token {token} was not drawn from its distribution q")
        sure = self.confidence
        if sure and not (n <= len(sure) <= n + 1 and all(0 <= chance <= 1 for chance in sure)):
            raise DraftError(f"{n} tokens with a confidence of {sure}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a round ended: the first `accepted` draft tokens stand, then comes `token`.

    `token` is a correction where a draft token was rejected, else the bonus token that the
    target's pass yields for free after an all-accepted (or empty) draft.
    """

    accepted: int
    token: int
    logprobs: tuple[TokenLogprobs, ...] = ()
    """Of the accepted tokens and of `token`, if they were asked for."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What decided whether the draft token at `index` may stand: it may where `u` < `limit`.

    `u` is None where nothing was drawn, since the outcome was certain.
    """

    index: int
    u: float | None
    limit: float
