"""What a person is shown of an answer beyond what the target has verified.

While a target elsewhere is out of reach, the draft model may go on. Its words are a draft like any
other, only a long one that is shown: once the target is back, it verifies them as it does all
drafts, and what stands becomes its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specengine.chat.answer_text import AnswerText
from specengine.core.events import Unverified, Version
from specengine.core.vocab import Vocab


@dataclass(frozen=True, slots=True)
class PartialAnswer:
    """An answer that the target is to verify and to go on with: `tokens`, with what is unverified
    from `unverified.token` on.
    """

    tokens: tuple[int, ...]
    unverified: Unverified


class Shown:
    """The answer as the person sees it, unverified words included."""

    def __init__(
        self, vocab: Vocab, stop: Sequence[str], tokens: Iterable[int], writer: str, seed: int
    ) -> None:
        """`tokens` of the answer are shown already. `writer` and `seed`: see `Unverified`."""
        self._text = AnswerText(vocab, stop)
        self.writer = writer
        self._seed = seed
        for token in tokens:
            self._text.add(token)

    @property
    def count(self) -> int:
        """Tokens shown."""
        return self._text.committed

    @property
    def stopped(self) -> bool:
        """Whether a stop string was met."""
        return self._text.stopped

    def add(self, token: int) -> str:
        """One more; the text that can be shown now."""
        return self._text.add(token)

    def finish(self, *, cut: bool) -> str:
        """As `AnswerText.finish`."""
        return self._text.finish(cut=cut)

    def mark(self, verified: AnswerText) -> Unverified:
        """Where the unverified words begin, given what is verified."""
        token = min(verified.committed, len(self._text.tokens))
        return Unverified(token, len(verified.text), self.writer, self._seed)

    def version(self, verified: AnswerText) -> Version:
        return Version(self._text.text, tuple(self._text.tokens), self.mark(verified))
