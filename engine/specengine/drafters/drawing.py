"""Draws the tokens of a draft, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specengine.cache.context import Logits
from specengine.core.draft import Draft
from specengine.core.drafter import Pace
from specengine.core.errors import NothingToDrawError
from specengine.core.tokens import TokenBuffer, Tokens
from specengine.rules import AcceptanceRule
from specengine.sampling import Transforms


def draw(
    row: Callable[[Sequence[int]], Logits],
    k: int,
    prefix: Tokens,
    transforms: Transforms,
    rule: AcceptanceRule,
    ends: frozenset[int],
    pace: Pace | None = None,
) -> Draft:
    """At most `k` tokens after `prefix`; one of `ends` is the last. `pace` may end it before.

    `row(drafted)` gives the logits of what follows `prefix` and the draft tokens `drafted`, as far
    as the drafter knows them. Penalties and grammar do know them: q is what they make of the row
    after those tokens, which is what the token is drawn from.
    """
    draft = Draft()
    text = TokenBuffer(prefix)
    for _ in range(k):
        if pace is not None and not pace.another():
            break
        logits = row(draft.tokens)
        try:
            if pace is None:
                q = transforms.distribution(logits, text.view())
            else:
                q, confidence = transforms.with_confidence(logits, text.view())
        except NothingToDrawError:  # what may come here is not among the drafter's tokens
            break
        if pace is not None:
            draft.confidence.append(confidence)
            # Only now: what is drawn must not decide whether it is kept.
            if not pace.draws(confidence):
                break
        token = rule.draw(q, position=len(text))
        # One id left means that nothing was drawn: a point mass, cheaper to say as None.
        draft.append(token, q if len(q.ids) > 1 else None)
        if token in ends:
            break
        text.append(token)
    return draft
