"""What drafts that were not made would have been worth.

A drafter that costs nothing tells its draft even where another one drafts, or nobody does; the text
that comes then shows how many of its tokens would have stood. Where a draft is sure of each token
(q = 1) that is as good as a trial: a token stands with the probability p that the target gives it,
which is the probability that the target says it. So nothing is staked to learn that a text has
begun to repeat itself.
"""

from __future__ import annotations

from collections.abc import Callable

from specengine.core.drafter import Offer

GUESSED = 2  # draft tokens: what stands beyond them shows in the guesses that follow


class Hindsight:
    """The latest guesses, compared with the tokens that are committed."""

    def __init__(self, learn: Callable[[Offer, int, int], None]) -> None:
        """`learn(offer, drafted, accepted)` hears of each guess what came of it."""
        self._learn = learn
        self._open: list[tuple[Offer, list[int], int]] = []  # …, how many tokens have stood

    def guess(self, offer: Offer, tokens: list[int]) -> None:
        """Compare what is committed from now on with `tokens`, the draft of an `offer`."""
        if tokens:
            self._open.append((offer, tokens, 0))

    def drop(self) -> None:
        """Forget the open guesses: their drafter drafts itself, and is judged by that."""
        self._open.clear()

    def saw(self, token: int) -> None:
        """`token` was committed."""
        still_open = []
        for offer, tokens, stood in self._open:
            stands = token == tokens[stood]
            stood += stands
            if stands and stood < len(tokens):
                still_open.append((offer, tokens, stood))
            else:
                self._learn(offer, len(tokens), stood)
        self._open = still_open
