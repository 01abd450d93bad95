"""Verification by what a server tells: log-probabilities of some tokens, and draws of its own.

Inference engines score given tokens in one pass and report, for each position, the raw
log-probability of the token there and of the N most probable ones. Two ways to verify a draft with
that are exact, and which of them is open depends on the sampling settings:

- `rows`: the N most probable tokens hold the whole truncated distribution (temperature 0, or
  top_k <= N). Then p is known, and every acceptance rule works.
- `draws`: at temperature 1 without truncation the server draws from p itself. A draft token x from
  q is accepted with probability min(1, p(x) / q(x)) (Leviathan et al. 2022, Chen et al. 2023). In
  place of the first that is rejected, a draw y of the server's is kept with probability
  max(0, 1 - q(y) / p(y)), else another one is looked at: rejection sampling from (p - q)+.

Under all other settings (`alone`) the server draws every token as it does for anybody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft, Verdict
from specengine.core.errors import SpecEngineError
from specengine.sampling import SamplingParams, Transforms

Way = Literal["rows", "draws", "alone"]

_ROUNDING = 1e-2  # servers compute in 16 bits
# Settings that the scores allow for; penalties only if `repeat_last_n` turns them off.
_EXACT = frozenset({"temperature", "top_k", "top_p", "min_p", "repeat_last_n", "seed"})
_PENALTIES = frozenset({"repeat_penalty", "frequency_penalty", "presence_penalty"})


class ScoresError(SpecEngineError):
    """A server's scores cannot be what they should: missing, too few, or of other tokens."""


class Drawn(NamedTuple):
    """A token that a server drew from p, and p of it."""

    token: int
    p: float


@dataclass(frozen=True, slots=True)
class TopN:
    """The most probable tokens at a position with their raw log-probabilities, best first."""

    tokens: tuple[tuple[int, float], ...]

    @property
    def margin(self) -> float:
        """How far the best lies above the second, in nats; infinite if only one is known."""
        return self.tokens[0][1] - self.tokens[1][1] if len(self.tokens) > 1 else math.inf

    def checked(self, n: int) -> TopN:
        """Returns itself. Raises ScoresError if these cannot be the `n` most probable tokens."""
        ids = [token for token, _ in self.tokens]
        logprobs = [logprob for _, logprob in self.tokens]
        if len(ids) < n:
            raise ScoresError(f"{len(ids)} of the {n} most probable tokens")
        if len(set(ids)) < len(ids) or logprobs != sorted(logprobs, reverse=True):
            raise ScoresError("the most probable tokens are not in order")
        if not sum(math.exp(logprob) for logprob in logprobs) < 1 + _ROUNDING:
            raise ScoresError("probabilities that sum to more than 1")
        return self


def way_to_verify(params: SamplingParams, top_n: int) -> Way:
    """Returns the way that is exact under `params` if a server tells the `top_n` most probable
    tokens. A setting that is not known to be exact, and is not at its default, leaves "alone".
    """
    exact = _EXACT if params.repeat_last_n else _EXACT | _PENALTIES
    default = type(params)()
    others = type(params).model_fields.keys() - exact
    if any(getattr(params, name) != getattr(default, name) for name in others):
        return "alone"
    if top_n >= 1 and (params.temperature == 0 or 0 < params.top_k <= top_n):
        return "rows"
    truncated = params.top_k > 0 or params.top_p < 1 or params.min_p > 0
    return "draws" if params.temperature == 1 and not truncated else "alone"


def distribution(row: TopN, params: SamplingParams) -> Distribution:
    """p after the truncation and temperature of `params`, for the way `rows`.

    The ids are ascending, so that exact ties go to the lowest of those that the server tells.
    """
    ordered = sorted(row.tokens)
    ids = np.array([token for token, _ in ordered], dtype=np.int32)
    logprobs = np.array([logprob for _, logprob in ordered], dtype=np.float32)
    kept = Transforms(params).distribution(logprobs, ids[:0])
    return Distribution(ids[kept.ids], kept.probs)


def verify_draws(
    draft: Draft,
    p: Sequence[float],
    bonus: int,
    draws: Callable[[int], Iterator[Drawn]],
    uniform: Callable[[], float],
) -> Verdict:
    """Returns the verdict on `draft` if only p of its own tokens is known, in the way `draws`.

    `p[i]` is the target's probability of `draft.tokens[i]`, `bonus` its own draw after the whole
    draft, and `draws(i)` yields independent draws after the first i draft tokens, for ever.
    """
    for i, token in enumerate(draft.tokens):
        q = draft.q[i]
        if not uniform() * (1 if q is None else q.prob(token)) < p[i]:
            q = Distribution.point(token, object) if q is None else q
            return Verdict(i, _residual(draws(i), q, uniform))
    return Verdict(len(draft), bonus)


def _residual(draws: Iterator[Drawn], q: Distribution, uniform: Callable[[], float]) -> int:
    """A draw from the normalised (p - q)+."""
    return next(y for y, p_y in draws if uniform() * p_y < p_y - q.prob(y))
