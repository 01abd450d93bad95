"""Whether drafted and verified tokens are distributed as the target says: a test on two tokens.

At one place of a text, everything that may happen to its next two tokens is computed once: the
target's p and the drafter's q after every first token. Then thousands of rounds are played with
the real acceptance rule, and the pairs of tokens that come out are compared with the target's law.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specengine.cache.context import Context
from specengine.checks.chi_square import ChiSquare, chi_square
from specengine.core.distribution import Distribution
from specengine.core.draft import Draft
from specengine.core.drafter import Drafter
from specengine.core.tokens import Tokens, as_tokens
from specengine.rules import AcceptanceRule
from specengine.sampling import Transforms

Text = tuple[int, ...]
_LENGTH = 2


@dataclass(frozen=True, slots=True)
class Branches:
    """What may follow a prefix: by the tokens after it, none or one."""

    target: dict[Text, Distribution]
    drafter: dict[Text, Distribution | int]
    """The distribution that a draft token is drawn from, or the one token that a deterministic
    drafter proposes. A text without an entry is one that the drafter proposes nothing for.
    """

    def law(self) -> tuple[list[Text], Distribution]:
        """Every pair of tokens the target may say, and their probabilities by index."""
        masses = {
            (first, second): mass * after.prob(second)
            for first, mass in zip(*_items(self.target[()]), strict=True)
            for after in [self.target[(first,)]]
            for second in after.ids.tolist()
        }
        ids = np.arange(len(masses), dtype=np.int32)
        return list(masses), Distribution(ids, np.array(list(masses.values())))


def evaluate(
    context: Context,
    transforms: Transforms,
    drafter: Drafter | None,
    prefix: Sequence[int],
) -> Branches:
    """Compute the branches after `prefix`; without a `drafter` the target's own best is drafted.

    `transforms` have to leave few tokens: there is a pass for each. Raises what `Context.logits`
    and the drafter raise.
    """
    start = as_tokens(prefix)
    target: dict[Text, Distribution] = {}
    guesses: dict[Text, Distribution | int] = {}

    def look(text: Text) -> None:
        tokens = np.append(start, as_tokens(text))
        target[text] = transforms.distribution(context.logits(tokens)[0], tokens)
        guess = target[text].argmax() if drafter is None else _guess(drafter, tokens)
        if guess is not None:
            guesses[text] = guess

    look(())
    first = guesses.get(())
    drafted = [first] if isinstance(first, int) else [] if first is None else first.ids.tolist()
    for token in sorted({*target[()].ids.tolist(), *drafted}):
        look((token,))
    return Branches(target, guesses)


def check_rule(rule: AcceptanceRule, branches: Branches, draws: int) -> ChiSquare:
    """Compare `draws` texts of two tokens, verified by `rule`, with the target's law."""
    texts, law = branches.law()
    index = {text: i for i, text in enumerate(texts)}
    # Rules with shared noise draw by position: each text gets positions of its own.
    starts = itertools.count(step=2 * _LENGTH)
    counts = Counter(play(rule, branches, next(starts)) for _ in range(draws))
    excluded = len(texts)
    return chi_square({index.get(text, excluded): n for text, n in counts.items()}, law)


def play(rule: AcceptanceRule, branches: Branches, position: int) -> Text:
    """The next two tokens after rounds that draft as many as are missing."""
    text: Text = ()
    while len(text) < _LENGTH:
        draft = Draft()
        while len(text) + len(draft) < _LENGTH:
            guess = branches.drafter.get((*text, *draft.tokens))
            if guess is None:
                break
            if isinstance(guess, int):
                draft.append(guess, None)
            else:
                draft.append(rule.draw(guess, position + len(text) + len(draft)), guess)

        def p(i: int, text: Text = text, draft: Draft = draft) -> Distribution:
            after = (*text, *draft.tokens[:i])
            # What follows the two tokens is not looked at.
            return branches.target[after] if len(after) < _LENGTH else Distribution.point(0)

        verdict = rule.verify(draft, p, position + len(text))
        text = (*text, *draft.tokens[: verdict.accepted], verdict.token)
    return text[:_LENGTH]


def _guess(drafter: Drafter, prefix: Tokens) -> Distribution | int | None:
    if drafter.offer(prefix) is None:
        return None
    draft = drafter.propose(prefix, 1)
    return (draft.q[0] or draft.tokens[0]) if len(draft) else None


def _items(p: Distribution) -> tuple[list[int], list[float]]:
    return p.ids.tolist(), p.probs.tolist()
