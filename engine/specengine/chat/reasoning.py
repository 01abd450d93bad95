"""Parts what a model thinks from what it answers, token by token, as both are committed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol

from specengine.chat.reasoning_format import (
    CHANNEL,
    CONSTRAIN,
    END,
    MESSAGE,
    START,
    ReasoningFormat,
)

_TAIL = 32  # of a prompt's last tokens, among which the marks of a thought that it opens are
_LONGEST_HEADER = 200  # of a harmony message, in bytes: what goes on for longer is none
_SPACE = " \t\r\n"


class Pieces(Protocol):
    """What a splitter needs of a vocabulary."""

    @property
    def control(self) -> dict[str, int]: ...

    @property
    def user_defined(self) -> dict[str, int]: ...

    def piece(self, token: int) -> bytes: ...


class Split(NamedTuple):
    """What a token adds: bytes of the thought, and bytes of the answer. Marks are in neither."""

    reasoning: bytes = b""
    answer: bytes = b""


class Splitter:
    """Parts the tokens of one answer: this one knows no thoughts, all of it is the answer."""

    is_thinking = False
    """Whether what comes next belongs to a thought, or ends it."""
    expects_answer = True
    """Whether what comes next is the answer's, to its end."""
    called: str | None = None
    """The recipient of a tool call that was left out, since no answer may ask for one."""

    def __init__(self, vocab: Pieces) -> None:
        self._vocab = vocab
        self._bytes = 0  # that the tokens spell
        self.answer_byte: int | None = None
        """Where the answer begins in the bytes that the tokens spell; None until it has begun."""

    def feed(self, token: int) -> Split:
        """What is known now to belong to one or the other."""
        piece = self._vocab.piece(token)
        self._bytes += len(piece)
        return self._found(self._take(token, piece))

    def finish(self) -> Split:
        """What was held back until now, now that no mark can follow: call once, at the end."""
        return self._found(self._rest())

    def _found(self, split: Split) -> Split:
        if split.answer and self.answer_byte is None:
            self.answer_byte = self._bytes - len(split.answer)
        return split

    def _take(self, token: int, piece: bytes) -> Split:
        return Split(answer=piece)

    def _rest(self) -> Split:
        return Split()


def make_splitter(
    reasoning: ReasoningFormat | None, vocab: Pieces, prompt: Sequence[int] = ()
) -> Splitter:
    """The splitter of an answer to `prompt`, which may end within a thought, or after one."""
    if reasoning is None:
        return Splitter(vocab)
    tail = prompt[max(0, len(prompt) - _TAIL) :]
    if reasoning.kind == "harmony":
        return _Harmony(vocab, tail)
    return _Tags(vocab, tail, reasoning)


def part_text(reasoning: ReasoningFormat, text: str) -> tuple[str, str]:
    """The thought and the answer of a whole text in which the marks stand as text."""
    splitter = make_splitter(reasoning, _OneText(text))
    pieces = splitter.feed(0), splitter.finish()
    thought, answer = (b"".join(each).decode() for each in zip(*pieces, strict=True))
    return thought, answer


class _OneText:
    """As much of a vocabulary as a splitter needs, whose one token is a text."""

    user_defined: ClassVar[dict[str, int]] = {}
    control: ClassVar[dict[str, int]] = {}

    def __init__(self, text: str) -> None:
        self._piece = text.encode("utf-8", "replace")

    def piece(self, token: int) -> bytes:
        return self._piece


class _Symbols:
    """Texts of one character a byte, in which a mark that is a token is one character, too.

    So plain text that spells such a mark is not taken for it, and marks that a vocabulary has no
    tokens for are found by their bytes.
    """

    def __init__(self, vocab: Pieces, marks: Sequence[str]) -> None:
        self._vocab = vocab
        special = {
            text: token
            for text, token in (vocab.user_defined | vocab.control).items()
            if text and any(text in mark for mark in marks)
        }
        self._of_text = {text: chr(256 + i) for i, text in enumerate(special)}
        self._of_token = {token: self._of_text[text] for text, token in special.items()}
        self._bytes_of = {self._of_text[text]: vocab.piece(t) for text, t in special.items()}
        longest_first = sorted(map(re.escape, special), key=len, reverse=True)
        self._tokens = re.compile(f"({'|'.join(longest_first)})") if special else None

    def of_mark(self, mark: str) -> str:
        parts = self._tokens.split(mark) if self._tokens else [mark]
        return "".join(self._of_text.get(p) or p.encode().decode("latin-1") for p in parts)

    def of_token(self, token: int) -> str:
        return self._of_token.get(token) or self._vocab.piece(token).decode("latin-1")

    def to_bytes(self, text: str) -> bytes:
        return b"".join(c.encode("latin-1") if ord(c) < 256 else self._bytes_of[c] for c in text)


class _Marked(Splitter):
    """Holds symbols back until it is known what they belong to."""

    def __init__(self, vocab: Pieces, marks: Sequence[str]) -> None:
        super().__init__(vocab)
        self._symbols = _Symbols(vocab, marks)
        self._held = ""
        self._thought = self._said = ""

    def _take(self, token: int, piece: bytes) -> Split:
        self._held += self._symbols.of_token(token)
        while self._held and self._step():
            pass
        return self._split()

    def _rest(self) -> Split:
        self._end()
        return self._split()

    def _split(self) -> Split:
        thought, said, self._thought, self._said = self._thought, self._said, "", ""
        return Split(self._symbols.to_bytes(thought), self._symbols.to_bytes(said))

    def _step(self) -> bool:
        """Read some of what is held; whether more of it can be read now."""
        raise NotImplementedError

    def _end(self) -> None:
        """Read all of what is held."""
        raise NotImplementedError

    def _until(self, marks: Sequence[str], space: str = "") -> tuple[str, str]:
        """What stands before the first of `marks`, and that mark. Without one it is what cannot
        belong to one any more, nor to `space` before it; the mark is empty then.
        """
        held = self._held
        found = [(at, mark) for mark in marks if (at := held.find(mark)) >= 0]
        if found:
            at, mark = min(found)
            self._held = held[at + len(mark) :]
            return held[:at].rstrip(space) if space else held[:at], mark
        longest = min(max(map(len, marks)) - 1, len(held))
        n = next((n for n in range(longest, 0, -1) if _begins_one(held[-n:], marks)), 0)
        passed = held[: len(held) - n]
        passed = passed.rstrip(space) if space else passed
        self._held = held[len(passed) :]
        return passed, ""


def _begins_one(text: str, marks: Sequence[str]) -> bool:
    return any(mark.startswith(text) for mark in marks)


class _Tags(_Marked):
    """A start, a thought, an end, the answer: only the first such block is a thought."""

    def __init__(self, vocab: Pieces, tail: Sequence[int], reasoning: ReasoningFormat) -> None:
        super().__init__(vocab, (reasoning.start, reasoning.end))
        self._start = self._symbols.of_mark(reasoning.start)
        self._stop = self._symbols.of_mark(reasoning.end)
        self._is_first = True  # of the thought: space before it is not shown
        self._step_of = self._before
        prompt = "".join(map(self._symbols.of_token, tail)).rstrip(_SPACE)
        if prompt.endswith(self._start):
            self._step_of = self._thinking
        elif prompt.endswith(self._stop):
            self._step_of = self._answering

    @property
    def is_thinking(self) -> bool:  # type: ignore[override]
        return self._step_of == self._thinking

    @property
    def expects_answer(self) -> bool:  # type: ignore[override]
        return self._step_of in (self._after, self._answering)

    def _step(self) -> bool:
        return self._step_of()

    def _end(self) -> None:
        if self._step_of == self._before:
            self._said, self._held = self._held, ""
        elif self._step_of == self._thinking:
            thought = self._held.rstrip(_SPACE)
            self._thought, self._held = thought.lstrip(_SPACE) if self._is_first else thought, ""

    def _before(self) -> bool:
        held = self._held.lstrip(_SPACE)
        for mark, then in ((self._start, self._thinking), (self._stop, self._after)):
            if held.startswith(mark):
                self._held, self._step_of = held[len(mark) :], then
                return True
        if _begins_one(held, (self._start, self._stop)):
            return False
        self._step_of = self._answering
        return True

    def _thinking(self) -> bool:
        if self._is_first:
            self._held = self._held.lstrip(_SPACE)
        thought, mark = self._until([self._stop], _SPACE)
        self._thought += thought
        self._is_first = self._is_first and not thought
        if mark:
            self._step_of = self._after
        return bool(mark)

    def _after(self) -> bool:
        self._held = self._held.lstrip(_SPACE)
        if self._held:
            self._step_of = self._answering
        return bool(self._held)

    def _answering(self) -> bool:
        self._said += self._held
        self._held = ""
        return False


class _Harmony(_Marked):
    """Messages in channels: a header says where each goes, and the answer is in `final`.

    A tool call is left out. What has no header is the answer.
    """

    def __init__(self, vocab: Pieces, tail: Sequence[int]) -> None:
        super().__init__(vocab, (START, CHANNEL, MESSAGE, END, CONSTRAIN))
        marks = map(self._symbols.of_mark, (START, CHANNEL, MESSAGE, END))
        self._start, self._channel, self._message, self._stop = marks
        self._to = "header"
        self._bodies = {"thought": 0, "said": 0}
        _, opened, header = "".join(map(self._symbols.of_token, tail)).rpartition(self._start)
        if opened:
            header, opened, self._held = header.partition(self._message)
            self._to = self._recipient(header) if opened else "header"

    @property
    def is_thinking(self) -> bool:  # type: ignore[override]
        return self._to == "thought"

    @property
    def expects_answer(self) -> bool:  # type: ignore[override]
        return self._to == "said"

    def _step(self) -> bool:
        if self._to == "header":
            return self._header()
        text, mark = self._until([self._stop, self._start])
        self._pass(text)
        if mark:
            self._to = "header"
        return bool(mark)

    def _header(self) -> bool:
        header, mark, rest = self._held.partition(self._message)
        if mark:
            self._to, self._held = self._recipient(header), rest
        elif self._is_no_header():
            self._to = "said"
        return self._to != "header"

    def _is_no_header(self) -> bool:
        firsts = (self._start, self._channel, self._message, " to=")
        held = self._held
        is_header = any(held.startswith(first) for first in firsts) or _begins_one(held, firsts)
        return not is_header or len(held) > _LONGEST_HEADER

    def _recipient(self, header: str) -> str:
        """Where the message after `header` belongs."""
        _, _, channel = header.partition(self._channel)
        called = re.search(r" to=(\S+)", header)
        name = channel.split(" ")[0]
        if called and name != "final":
            self.called = self._symbols.to_bytes(called[1]).decode("utf-8", "replace")
            return "call"
        return "thought" if name.startswith(("analysis", "commentary")) else "said"

    def _pass(self, text: str) -> None:
        if self._to == "thought":
            self._thought += text
        elif self._to == "said":
            self._said += text

    def _end(self) -> None:
        if self._to == "header" and self._is_no_header():
            self._to = "said"
        self._pass(self._held)
        self._held = ""
