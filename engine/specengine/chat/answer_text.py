"""From committed tokens to the text a person reads, and where both end."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from specengine.chat.stop import StopFilter
from specengine.core.vocab import Vocab


class AnswerText:
    """Text and ids of an answer. Text comes in complete characters; both end at one place.

    `tokens` are the ids that lie wholly before the cut which a stop string makes.
    """

    def __init__(self, vocab: Vocab, stop: Sequence[str] = ()) -> None:
        self._vocab = vocab
        self._stop = StopFilter(stop)
        # A character may span tokens; bytes that never become one turn into U+FFFD.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tokens: list[int] = []
        self._ends: list[int] = []  # of each token, in bytes
        self._parts: list[str] = []

    @property
    def committed(self) -> int:
        """Tokens added, those behind the cut included."""
        return len(self._tokens)

    @property
    def stopped(self) -> bool:
        """Whether a stop string was met."""
        return self._stop.cut is not None

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def tokens(self) -> list[int]:
        cut = self._stop.cut
        if cut is None:
            return self._tokens
        return [t for t, end in zip(self._tokens, self._ends, strict=True) if end <= cut]

    def add(self, token: int) -> str:
        """Append a token; the text that can be shown now, often empty."""
        data = self._vocab.piece(token)
        self._tokens.append(token)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(data))
        return self._show(self._stop.feed(data), final=False)

    def finish(self, *, cut: bool) -> str:
        """The text that was held back until now: call once, at the end.

        An answer that was `cut`, by a limit or by a person, ends before a character that lacks its
        end; one that came to its own end shows U+FFFD for it.
        """
        return self._show(self._stop.finish(), final=not cut)

    def _show(self, data: bytes, final: bool) -> str:
        text = self._decoder.decode(data, final)
        if text:
            self._parts.append(text)
        return text
