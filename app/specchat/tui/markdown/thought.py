"""What a model thought, above its answer: a line that says so, and below it the words."""

from __future__ import annotations

from dataclasses import replace

from textual.content import Content

from specchat.tui.markdown.blocks import BLANK_ROW, Paragraph, Row
from specchat.tui.markdown.document import Document

_LABEL = "italic $foreground-muted"
_WORDS = "dim"


class Thought:
    """A `Document` of dim words below a label; folded only the label is seen."""

    def __init__(self) -> None:
        self.label = ""
        self.is_folded = False
        self._document = Document()
        self._above: list[Row] = []
        self._height = 0

    def append(self, text: str) -> None:
        """As `Document.append`."""
        self._document.append(text)

    def height(self, width: int) -> int:
        """Rows for `width` cells, an empty one at the end; none where nothing was thought."""
        if not self.label:
            return 0
        self._above = Paragraph(Content.styled(self.label, _LABEL)).rows(width)
        self._height = len(self._above)
        if not self.is_folded:
            self._height += self._document.height(width)
        return self._height + 1

    def row(self, y: int) -> Row:
        """A row of the layout that `height` made last."""
        if y < len(self._above):
            return self._above[y]
        if y >= self._height:
            return BLANK_ROW
        row = self._document.row(y - len(self._above))
        return replace(row, content=row.content.stylize(_WORDS))
