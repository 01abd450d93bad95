"""A message whose end the target has not verified yet: set apart by a line that says so."""

from __future__ import annotations

from dataclasses import replace

from textual.content import Content

from specchat.tui.markdown.blocks import BLANK_ROW, Paragraph, Row
from specchat.tui.markdown.document import Document

_LABEL = "italic $warning"
_WORDS = "dim"


class MarkedDocument:
    """A `Document`; from where `mark` is called on its words are dim, below a label."""

    def __init__(self) -> None:
        self._verified = Document()
        self._unverified: Document | None = None
        self._label = Paragraph(Content())
        self._above: list[Row] = []
        """The rows of the label, and an empty one before them."""
        self._verified_height = 0

    @property
    def _last(self) -> Document:
        return self._verified if self._unverified is None else self._unverified

    def mark(self, label: str) -> None:
        """What is appended from here on is unverified, and `label` says so."""
        fence = self._verified.fence
        self._verified.finish()
        self._label = Paragraph(Content.styled(label, _LABEL))
        self._unverified = Document()
        if fence:
            self._unverified.append(f"{fence}\n")

    def append(self, text: str) -> None:
        """As `Document.append`, and so are the others."""
        self._last.append(text)

    def finish(self) -> None:
        self._last.finish()

    def add_note(self, text: str) -> None:
        self._last.add_note(text)

    def height(self, width: int) -> int:
        self._verified_height = self._verified.height(width)
        if self._unverified is None:
            return self._verified_height
        gap = [BLANK_ROW] if self._verified_height else []
        self._above = gap + self._label.rows(width)
        return self._verified_height + len(self._above) + self._unverified.height(width)

    def row(self, y: int) -> Row:
        below = y - self._verified_height
        if self._unverified is None or below < 0:
            return self._verified.row(y)
        if below < len(self._above):
            return self._above[below]
        row = self._unverified.row(below - len(self._above))
        return replace(row, content=row.content.stylize(_WORDS))
