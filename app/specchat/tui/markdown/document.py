"""A message as rows of text, cheap to extend at its end and to read anywhere."""

from __future__ import annotations

from textual.content import Content

from specchat.printable import printable
from specchat.tui.markdown.blocks import BLANK_ROW, Block, Paragraph, Row
from specchat.tui.markdown.code import code_rows
from specchat.tui.markdown.render import render
from specchat.tui.markdown.splitter import Segment, Splitter

_TYPED_MAX = 100_000

_NOTE = "italic $foreground-muted"

# An open line longer than this is broken before its end, so that no append lays out more.
_OPEN_LINE_MAX = 2_000


class Document:
    """Closed blocks of markdown, and after them the open end as plain text.

    Appending costs what the new text costs, however long the document is: closed blocks keep their
    rows, and so do the finished lines of the open end.
    """

    def __init__(self) -> None:
        self._splitter = Splitter()
        self._blocks: list[Block] = []
        self._rows: list[Row] = []
        self._tail = _Tail()
        self._width = 0

    @classmethod
    def of_text(cls, text: str) -> Document:
        """Text shown as it was typed, no markdown in it; of a book only the beginning."""
        document = cls()
        document._blocks.append(Paragraph(Content(printable(text[:_TYPED_MAX]))))
        if len(text) > _TYPED_MAX:
            document.add_note(f"… and {len(text) - _TYPED_MAX:,} more characters")
        return document

    @property
    def fence(self) -> str:
        """What closes the code that comes next; empty if no code comes."""
        return self._splitter.fence

    def append(self, text: str) -> None:
        self._close(self._splitter.feed(printable(text)))

    def finish(self) -> None:
        """Nothing follows: the open end is markdown too."""
        self._close(self._splitter.close())

    def add_note(self, text: str) -> None:
        """Adds a remark below the message, which is not part of it."""
        note = Paragraph(Content.styled(text, _NOTE))
        self._blocks.append(note)
        if self._width:
            self._lay_out([note])

    def height(self, width: int) -> int:
        """Lays the document out for `width` cells; returns how many rows it has."""
        if width != self._width:
            self._width = width
            self._rows = []
            self._lay_out(self._blocks)
            self._tail = _Tail()
        if self._splitter.in_fence != self._tail.is_code:
            self._tail = _Tail(is_code=self._splitter.in_fence)
        self._tail.extend(self._splitter.tail, width)
        return len(self._rows) + self._gap() + len(self._tail)

    def row(self, y: int) -> Row:
        """A row of the layout that `height` made last, blank beyond its end."""
        if y < len(self._rows):
            return self._rows[y]
        return self._tail.row(y - len(self._rows) - self._gap())

    def _gap(self) -> int:
        """Rows between the closed blocks and the open end."""
        return int(bool(self._rows and len(self._tail) and self._splitter.loose))

    def _close(self, segments: list[Segment]) -> None:
        for segment in segments:
            blocks = render(segment.source, loose=segment.loose)
            self._blocks += blocks
            if self._width:
                self._lay_out(blocks)
        if segments:
            self._tail = _Tail()

    def _lay_out(self, blocks: list[Block]) -> None:
        for block in blocks:
            if block.above is not None and self._rows:
                self._rows.append(Row(block.above))
            self._rows += block.rows(self._width)


class _Tail:
    """The open end as plain text. Finished lines keep their rows."""

    def __init__(self, *, is_code: bool = False) -> None:
        self.is_code = is_code
        self._finished: list[Row] = []
        self._open: list[Row] = []
        self._end = 0

    def __len__(self) -> int:
        return len(self._finished) + len(self._open)

    def row(self, y: int) -> Row:
        if y < 0 or y >= len(self):
            return BLANK_ROW
        count = len(self._finished)
        return self._finished[y] if y < count else self._open[y - count]

    def extend(self, text: str, width: int) -> None:
        """Lays out what `text` has more than last time, which it begins with."""
        end = text.rfind("\n") + 1
        if len(text) - end > _OPEN_LINE_MAX:
            end = text.rfind(" ", end) + 1 or len(text)
        if end > self._end:
            self._finished += self._rows(text[self._end : end].removesuffix("\n"), width)
            self._end = end
        self._open = self._rows(text[self._end :], width) if text[self._end :].strip() else []

    def _rows(self, text: str, width: int) -> list[Row]:
        if self.is_code:
            return code_rows(text, width)
        return Paragraph(Content(text)).rows(width)
