"""How many tokens to draft now."""

from __future__ import annotations

from typing import Protocol


class DraftLengthController(Protocol):
    """Chooses the draft length of each round from what earlier rounds brought."""

    def length(self, room: int) -> int:
        """Tokens to draft in the next round, at most `room`; 0 lets the target go alone."""
        ...

    def observe(self, drafted: int, accepted: int, draft_s: float, verify_s: float) -> None:
        """What a round proposed, what stood, and what it cost in seconds."""
        ...


class FixedDraftLength:
    """Always the same draft length."""

    def __init__(self, k: int) -> None:
        self._k = k

    def length(self, room: int) -> int:
        return min(self._k, room)

    def observe(self, drafted: int, accepted: int, draft_s: float, verify_s: float) -> None:
        """Nothing is learned."""
