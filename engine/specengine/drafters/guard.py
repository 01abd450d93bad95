"""A drafter that breaks costs its drafts, never the answer."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from operator import index
from typing import TypeVar, cast

from specengine.core.cancel import AbortFlag, time_limit
from specengine.core.draft import Draft
from specengine.core.drafter import Drafter, Offer, Pace, PacedDrafter
from specengine.core.errors import CancelledError, DraftError
from specengine.core.tokens import Tokens

logger = logging.getLogger(__name__)

# A drafter that takes longer than both hangs.
_PATIENCE_S = 10.0
_PATIENCE = 5.0  # times what was expected

T = TypeVar("T")


class Guard:
    """Asks the drafters of one answer; one that has failed is asked no more.

    They see the text, and cannot change it.
    """

    def __init__(self, notices: list[str], n_vocab: int, abort: AbortFlag | None = None) -> None:
        """What a person should know is appended to `notices`. Draft tokens have ids below
        `n_vocab`. `abort` is set where the person cancels.
        """
        self._notices = notices
        self._n_vocab = n_vocab
        self._abort = abort
        self._broken: set[str] = set()

    def offer(self, drafter: Drafter, prefix: Tokens) -> Offer | None:
        """As `Drafter.offer`; None from one that fails or has failed, or whose costs are none."""
        offer = self._run(drafter, lambda: _checked(drafter.offer(_read_only(prefix))))
        if drafter.notice is not None:
            self._notices.append(drafter.notice)
        return offer

    def propose(
        self, drafter: Drafter, offer: Offer, prefix: Tokens, k: int, pace: Pace | None = None
    ) -> Draft | None:
        """As `Drafter.propose` after its `offer`, with a `pace` as `PacedDrafter.propose`; None
        from one that fails or has failed, hangs, or proposes what cannot be verified.

        Raises CancelledError where the person cancels.
        """

        def propose() -> Draft:
            limit_s = max(_PATIENCE_S, _PATIENCE * (offer.start_s + offer.seconds(k)))
            text = _read_only(prefix)
            try:
                with time_limit(drafter.abort, limit_s):
                    if pace is None:
                        draft = drafter.propose(text, k)
                    else:
                        draft = cast(PacedDrafter, drafter).propose(text, k, pace)
            except CancelledError as error:
                if self._abort is not None and self._abort.is_set():
                    raise
                raise DraftError(f"it returned no draft within {limit_s:.0f} s") from error
            draft.check(k, self._n_vocab)
            return draft

        return self._run(drafter, propose)

    def _run(self, drafter: Drafter, work: Callable[[], T]) -> T | None:
        """What `work` with `drafter` returns; None where it fails or has failed before."""
        if drafter.name in self._broken:
            return None
        try:
            return work()
        except CancelledError:
            raise
        except Exception as failure:
            logger.exception("drafter %s failed", drafter.name)
            self._broken.add(drafter.name)
            self._notices.append(
                f"the drafter {drafter.name} failed ({failure}): continuing without it"
            )
            return None


def _read_only(prefix: Tokens) -> Tokens:
    view = prefix.view()
    view.flags.writeable = False
    return view


def _checked(offer: Offer | None) -> Offer | None:
    """None for an offer of no tokens. Raises DraftError for one that cannot be weighed against
    passes of the target.
    """
    if offer is None or index(offer.available) == 0:
        return None
    if offer.available < 0 or not 0 <= offer.prior <= 1:
        raise DraftError(
            f"it offers {offer.available} draft tokens with the acceptance rate {offer.prior}"
        )
    costs: tuple[float, ...] = (offer.start_s,)
    if not offer.is_free:
        costs += (offer.seconds(1), offer.seconds(offer.available))
    for seconds in costs:
        if not 0 <= seconds < math.inf:
            raise DraftError(f"it asks for {seconds} s per draft")
    return offer
