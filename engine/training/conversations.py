"""What the target writes for training: a question, where it was given none, and an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

QUESTION_LIMIT = 80  # tokens
QUESTION_TEMPERATURE = 1.0


@dataclass(frozen=True, slots=True)
class Markup:
    """Token ids of the chat format around what people and the target write."""

    before_question: tuple[int, ...]
    before_answer: tuple[int, ...]
    end: int


@dataclass(slots=True)
class Conversation:
    """One question and its answer while they are written, at most `limit` tokens in all."""

    markup: Markup
    answer_temperature: float
    limit: int
    question: Sequence[int] | None = None
    tokens: list[int] = field(init=False)
    answer_start: int | None = field(init=False, default=None)
    """Where the answer begins in `tokens`; None while the question is written."""
    finished: bool = field(init=False, default=False)
    _next: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.tokens = list(self.markup.before_question)
        if self.question is not None:
            self.tokens += self.question
            self._open_answer()
        if len(self.tokens) >= self.limit:
            raise ValueError(f"a question of {len(self.tokens)} tokens leaves no room to answer")

    @property
    def temperature(self) -> float:
        """At which the next sampled token is drawn; 0 takes the likeliest."""
        return QUESTION_TEMPERATURE if self.answer_start is None else self.answer_temperature

    @property
    def position(self) -> int:
        """Of the token that the next pass evaluates."""
        return self._next

    @property
    def token(self) -> int:
        """The token that the next pass evaluates."""
        return self.tokens[self._next]

    def advance(self, drawn: int) -> None:
        """The pass is done and `drawn` was sampled after it: used where the text ended there."""
        self._next += 1
        if self._next < len(self.tokens):
            return
        if self.answer_start is None:
            self._write_question(drawn)
        else:
            self.tokens.append(drawn)
            self.finished = drawn == self.markup.end or len(self.tokens) >= self.limit

    def _write_question(self, drawn: int) -> None:
        written = len(self.tokens) - len(self.markup.before_question)
        if drawn == self.markup.end or written >= QUESTION_LIMIT:
            self._open_answer()
        else:
            self.tokens.append(drawn)

    def _open_answer(self) -> None:
        self.tokens += self.markup.before_answer
        self.answer_start = len(self.tokens)
