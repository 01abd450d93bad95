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

    def __init__(self, open_store: Callable[[], ChatStore]) -> None:
        self._open_store = open_store
        self._store: ChatStore | None = None

    def __call__(self, model: str) -> Sequence[Sequence[int]]:
        """Oldest first. None where the chats cannot be read: that costs drafts, nothing else."""
        try:
            if self._store is None:
                self._store = self._open_store()
            return self._store.answers(model, MAX_TOKENS)
        except GoneError:
            self._store = None  # deleted, and all answers with it; the next call looks again
            return []
        except SpecchatError as error:
            logger.warning("no drafts from earlier answers: %s", error)
            return []
