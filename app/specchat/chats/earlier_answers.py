"""The answers in stored chats, as text to draft from: a person asks for similar things again.

They are read anew for each answer, so a deleted chat is gone from the next one on. The drafts
change no text; it only comes sooner.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from specchat.chats import ChatStore, GoneError
from specchat.errors import SpecchatError

logger = logging.getLogger(__name__)

MAX_TOKENS = 100_000  # of all answers together: 2 MB of memory


class EarlierAnswers:
    """Token ids of the newest answers of a model, whatever chat they are in."""

    def __init__(self, store: Callable[[], ChatStore | None]) -> None:
        """`store` gives the one that is open now; None if there is none."""
        self._store = store

    def __call__(self, model: str) -> Sequence[Sequence[int]]:
        """Oldest first; empty if the chats cannot be read: that costs drafts, nothing else."""
        try:
            store = self._store()
            return [] if store is None else store.answers(model, MAX_TOKENS)
        except GoneError:
            return []  # deleted, and all answers with it
        except SpecchatError as error:
            logger.warning("cannot draft from earlier answers: %s", error)
            return []
