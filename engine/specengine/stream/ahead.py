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


class Ahead:
    """Drafts that the target has neither accepted nor rejected yet, and how earlier ones fared."""

    def __init__(self, committed: Sequence[int]) -> None:
        """`committed`: prompt, and whatever the target has said of the answer."""
        self.text = Transcript(committed)
        self.committed = len(self.text)
        self.survival = Survival()
        self._segments: deque[_Segment] = deque()

    @property
    def length(self) -> int:
        """Draft tokens ahead of the committed ones."""
        return len(self.text) - self.committed

    @property
    def draft(self) -> list[int]:
        """These tokens."""
        return [int(token) for token in self.text.tokens[self.committed :]]

    def extend(self, tokens: Sequence[int], kind: str) -> None:
        """Draft tokens of an offer of `kind` that follow what is there."""
        self._segments.append(_Segment(len(self.text), len(tokens), kind))
        self.text.extend(tokens)

    def drop(self) -> None:
        """Take the draft back; nothing is learned of it."""
        self._segments.clear()
        self.text.truncate(self.committed)

    def commit(self, token: int) -> bool:
        """The target's next token; whether it is the one drafted. Else the draft is void."""
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
