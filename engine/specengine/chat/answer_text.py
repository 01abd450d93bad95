"""From committed tokens to the text a person reads, and where both end."""

from __future__ import annotations

import bisect
import codecs
from collections.abc import Sequence
from typing import NamedTuple

from specengine.chat.reasoning import Split, make_splitter
from specengine.chat.reasoning_format import ReasoningFormat
from specengine.chat.stop import StopFilter
from specengine.core.vocab import Vocab


class Shown(NamedTuple):
    """What can be shown now, in complete characters; often nothing."""

    text: str
    reasoning: str


class AnswerText:
    """Text and ids of an answer, and what was thought before it. Text comes in complete characters;
    text and ids end at one place.

    `tokens` are the ids that lie wholly before the cut which a stop string makes. Stop strings are
    those of the answer: in a thought they end nothing.
    """

    def __init__(
        self,
        vocab: Vocab,
        stop: Sequence[str] = (),
        reasoning: ReasoningFormat | None = None,
        prompt: Sequence[int] = (),
    ) -> None:
        """`reasoning` tells how thoughts are marked in an answer to the token ids `prompt`."""
        self.settings = (vocab, stop, reasoning, prompt)
        """What it was made with."""
        self._vocab = vocab
        self._stop = StopFilter(stop)
        self._thinks = reasoning is not None
        self._splitter = make_splitter(reasoning, vocab, prompt)
        # A character may span tokens; bytes that never become one turn into U+FFFD.
        self._decoder, self._thought_decoder = (
            codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)
        )
        self._tokens: list[int] = []
        self._ends: list[int] = []  # of each token, in bytes
        self._parts: list[str] = []
        self._thoughts: list[str] = []

    @property
    def committed(self) -> int:
        """Tokens added, those behind the cut included."""
        return len(self._tokens)

    @property
    def stopped(self) -> bool:
        """Whether a stop string was met."""
        return self._stop.cut is not None

    @property
    def stop(self) -> str | None:
        """The stop string that was met."""
        return self._stop.met

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def reasoning(self) -> str:
        """What was thought, without marks."""
        return "".join(self._thoughts)

    @property
    def tokens(self) -> list[int]:
        cut = self._stop.cut
        if cut is None:
            return self._tokens
        end = cut + (self._splitter.answer_byte or 0)
        return self._tokens[: bisect.bisect_right(self._ends, end)]

    @property
    def answer_at(self) -> int:
        """How many of the tokens are a thought and its marks: those before the answer's first."""
        if not self._thinks:
            return 0
        if (begins := self._splitter.answer_byte) is not None:
            return bisect.bisect_right(self._ends, begins)
        return len(self._tokens) if self._thoughts or self._splitter.is_thinking else 0

    @property
    def called(self) -> str | None:
        """The recipient of a tool call, which is in neither text."""
        return self._splitter.called

    def add(self, token: int) -> Shown:
        """Append a token; what can be shown now."""
        self._tokens.append(token)
        length = len(self._vocab.piece(token))
        self._ends.append((self._ends[-1] if self._ends else 0) + length)
        split = self._splitter.feed(token)
        return self._show(split, self._stop.feed(split.answer), final=False)

    def finish(self, *, cut: bool) -> Shown:
        """What was held back until now: call once, at the end.

        An answer that was `cut`, by a limit or by a person, ends before a character that lacks its
        end; one that came to its own end shows U+FFFD for it.
        """
        split = self._splitter.finish()
        answer = self._stop.feed(split.answer) + self._stop.finish()
        return self._show(split, answer, final=not cut)

    def _show(self, split: Split, answer: bytes, final: bool) -> Shown:
        thought = self._thought_decoder.decode(split.reasoning, final) if self._thinks else ""
        text = self._decoder.decode(answer, final)
        if thought:
            self._thoughts.append(thought)
        if text:
            self._parts.append(text)
        return Shown(text, thought)
