"""Verification for other programs: what a target says to token sequences that came from elsewhere.

Any program with a way of its own to guess (a retriever, a template, an edit history, another model)
gets from one pass how far the target agrees, and what it would have said instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specengine.context import Context, Logits
from specengine.draft import Draft
from specengine.errors import ContextFullError
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
from specengine.sampling.logprobs import TokenLogprobs, token_logprobs
from specengine.sequence import Tokens, as_tokens

GREEDY = SamplingParams(temperature=0)


@dataclass(frozen=True, slots=True)
class CandidateReport:
    """How the target takes candidate tokens after a prefix."""

    accepted: int
    """So many leading candidates stand."""
    next_token: int
    """What the target says after those: a correction, or a further token where all stand."""
    predictions: tuple[TokenLogprobs, ...]
    """For each candidate its log-probability after those before it, with the target's own best ids
    beside it; last, the same of `next_token` where all stand. Before temperature and truncation.
    """


def verify_candidates(
    context: Context,
    prefix: Sequence[int],
    candidates: Sequence[int],
    *,
    sampling: SamplingParams = GREEDY,
    rule: str | None = None,
    top: int = 5,
) -> CandidateReport:
    """The target's prediction at each position of `candidates`, and how many of them stand.

    One pass for as many candidates as `context.max_rows` allows; longer sequences take several. A
    prefix that the context holds from an earlier call is not evaluated again.

    `sampling` and `rule` decide what stands, as for any deterministic draft: by default a candidate
    has to be the target's most probable token, with a temperature and `rule="token"` it stands with
    the probability that the target gives it. `top` is how many of the target's best ids are told.

    Raises ContextFullError where the tokens do not fit or `prefix` is empty, BackendError for ids
    outside the vocabulary, SamplingError for settings that contradict each other.
    """
    if not len(prefix):
        raise ContextFullError("the prefix is empty: a prediction needs a token to follow")
    acceptance = make_rule(rule, sampling)
    transforms = Transforms(sampling)
    tokens = np.concatenate((as_tokens(prefix), as_tokens(candidates)))
    rows = _rows(context, tokens, len(candidates) + 1)
    verdict = acceptance.verify(
        Draft(list(candidates), [None] * len(candidates)),
        lambda i: transforms.distribution(rows[i], tokens[: len(prefix) + i]),
        position=len(prefix),
    )
    told = list(candidates)
    if verdict.accepted == len(candidates):
        told.append(verdict.token)
    predictions = tuple(token_logprobs(rows[i], token, top) for i, token in enumerate(told))
    return CandidateReport(verdict.accepted, verdict.token, predictions)


def _rows(context: Context, tokens: Tokens, n: int) -> Logits:
    """Logits after each of the last `n` tokens, in as few passes as `max_rows` allows."""
    if n <= context.max_rows:
        return context.logits(tokens, n)
    ends = range(len(tokens) - n + context.max_rows, len(tokens), context.max_rows)
    parts = [context.logits(tokens[:end], context.max_rows).copy() for end in ends]
    left = n - len(parts) * context.max_rows
    return np.concatenate((*parts, context.logits(tokens, left)))
