"""A drafter that breaks costs its drafts, never the answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from specengine.control.controller import Offer
from specengine.drafters import Drafter
from specengine.errors import CancelledError
from specengine.sequence import Tokens

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Guard:
    """Asks the drafters of one answer; one that has failed is asked no more."""

    def __init__(self, notices: list[str]) -> None:
        """What a person should know is appended to `notices`."""
        self._notices = notices
        self._broken: set[str] = set()

    def offer(self, drafter: Drafter, prefix: Tokens) -> Offer | None:
        """As `Drafter.offer`; None from one that is broken."""
        offer = self.run(drafter, lambda: drafter.offer(prefix), None)
        if drafter.notice is not None:
            self._notices.append(drafter.notice)
        return offer

    def run(self, drafter: Drafter, work: Callable[[], T], otherwise: T) -> T:
        """What `work` with `drafter` returns; `otherwise` where it fails or has failed before.

        Raises CancelledError.
        """
        if drafter.name in self._broken:
            return otherwise
        try:
            return work()
        except CancelledError:
            raise
        except Exception as failure:
            logger.exception("drafter %s failed", drafter.name)
            self._broken.add(drafter.name)
            self._notices.append(f"drafter {drafter.name} failed ({failure}): going on without it")
            return otherwise
