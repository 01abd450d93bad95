"""What a person is shown of an answer beyond what the target has verified.

While a remote target is out of reach, the draft model may go on. Its words are a draft like any
other, only a long one that is shown: once the target is back, it verifies them as it does all
drafts, and what it accepts becomes its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from specengine.chat.answer_text import AnswerText
from specengine.core.events import Unverified, Version


@dataclass(frozen=True, slots=True)
class PartialAnswer:
    """An answer that the target is to verify and to go on with: `tokens`, with what is unverified
    from `unverified.token` on.
    """

    tokens: tuple[int, ...]
    unverified: Unverified


class ShownText(AnswerText):
    """The answer as the person sees it, unverified words included."""

    def __init__(self, verified: AnswerText, tokens: Iterable[int], writer: str, seed: int) -> None:
        """`tokens` of the answer are shown already, of which the target has said `verified`.
        `writer` and `seed`: see `Unverified`.
        """
        super().__init__(*verified.settings)
        self.writer = writer
        self._seed = seed
        for token in tokens:
            self.add(token)

    def mark(self, verified: AnswerText) -> Unverified:
        """Where the unverified words begin, given what is verified."""
        token = min(verified.committed, len(self.tokens))
        return Unverified(token, len(verified.text), self.writer, self._seed)

    def version(self, verified: AnswerText) -> Version:
        """What is shown now, given what of it is verified."""
        return Version(self.text, tuple(self.tokens), self.mark(verified), self.reasoning)
