"""Draws the tokens of a draft, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specengine.context import Logits
from specengine.draft import Draft
from specengine.errors import NothingToDrawError
from specengine.rules import AcceptanceRule
from specengine.sampling import Transforms
from specengine.sequence import TokenBuffer, Tokens


def draw(
    row: Callable[[Sequence[int]], Logits],
    k: int,
    prefix: Tokens,
    transforms: Transforms,
    rule: AcceptanceRule,
    ends: frozenset[int],
) -> Draft:
    """At most `k` tokens after `prefix`; one of `ends` is the last.

    `row(drafted)` gives the logits of what follows `prefix` and the draft tokens `drafted`, as far
    as the drafter knows them. Penalties and grammar do know them: q is what they make of the row
    after those tokens, which is what the token is drawn from.
    """
    draft = Draft()
    text = TokenBuffer(prefix)
    for _ in range(k):
        try:
            q = transforms.distribution(row(draft.tokens), text.view())
        except NothingToDrawError:  # what may come here is not among the drafter's tokens
            break
        token = rule.draw(q, position=len(text))
        # One id left means that nothing was drawn: a point mass, cheaper to say as None.
        draft.append(token, q if len(q.ids) > 1 else None)
        if token in ends:
            break
        text.append(token)
    return draft
