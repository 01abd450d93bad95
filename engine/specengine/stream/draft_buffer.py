"""The committed text of an answer, and the draft that runs ahead of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from specengine.control.survival import Survival
from specengine.stream.transcript import Transcript


@dataclass(slots=True)
class _Segment:
    """Draft tokens of one offer: `n` of them from `pos` on."""

    pos: int
    n: int
    kind: str


class DraftBuffer:
    """Drafts that the target has neither accepted nor rejected yet, and how earlier ones fared."""

    def __init__(self, committed: Sequence[int]) -> None:
        """`committed` are the ids of the prompt and of what the target has said of the answer."""
        self.text = Transcript(committed)
        self.committed = len(self.text)
        self.survival = Survival()
        self._segments: deque[_Segment] = deque()

    @property
    def length(self) -> int:
        """Number of draft tokens after the committed ones."""
        return len(self.text) - self.committed

    @property
    def draft(self) -> list[int]:
        """Ids of the draft tokens after the committed ones, in the order of the text."""
        return [int(token) for token in self.text.tokens[self.committed :]]

    def extend(self, tokens: Sequence[int], kind: str) -> None:
        """Append draft tokens that were proposed after an offer of `kind`."""
        self._segments.append(_Segment(len(self.text), len(tokens), kind))
        self.text.extend(tokens)

    def drop(self) -> None:
        """Remove all draft tokens; `survival` does not count them."""
        self._segments.clear()
        self.text.truncate(self.committed)

    def commit(self, token: int) -> bool:
        """Append the target's next token; returns whether it was the one drafted. If not, the rest
        of the draft is removed. `survival` learns how many tokens of a draft were accepted.
        """
        if self.length and self.text.tokens[self.committed] == token:
            self.committed += 1
            self._resolve_kept()
            return True
        if self._segments:
            segment = self._segments[0]
            self.survival.observe(segment.kind, segment.n, self.committed - segment.pos)
        self.drop()
        self.text.extend((token,))
        self.committed += 1
        return False

    def _resolve_kept(self) -> None:
        segment = self._segments[0]
        if segment.pos + segment.n == self.committed:
            self.survival.observe(segment.kind, segment.n, segment.n)
            self._segments.popleft()
