"""Blocks of text that wrap to a width: all that a message on the screen is made of."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol

from textual.content import Content

EMPTY = Content()
FAINT = "$foreground 30%"

_COLUMN_GAP = " │ "
_COLUMN_RULE = "─┼─"
_COLUMN_MIN = 4


@dataclass(frozen=True, slots=True)
class Row:
    """One row on the screen. `fill` is the style of the whole row, beyond the end of its text."""

    content: Content
    fill: str = ""


BLANK_ROW = Row(EMPTY)


class Block(Protocol):
    """Something that can be laid out at any width."""

    @property
    def above(self) -> Content | None:
        """The empty row above it: what nesting puts there, or None for no such row."""

    @property
    def plain(self) -> str:
        """All the text it shows."""

    def rows(self, width: int) -> list[Row]:
        """Its rows, none wider than `width` cells."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Text between a prefix on its first row and one of the same width on the others."""

    content: Content
    first: Content = EMPTY
    rest: Content = EMPTY
    fill: str = ""
    above: Content | None = EMPTY

    @property
    def plain(self) -> str:
        return self.first.plain + self.content.plain

    def rows(self, width: int) -> list[Row]:
        wrapped = self.content.wrap(max(1, width - self.first.cell_length))
        if not self.first:
            return [Row(line, self.fill) for line in wrapped]
        prefixes = [self.first] + [self.rest] * (len(wrapped) - 1)
        return [
            Row(prefix + line, self.fill) for prefix, line in zip(prefixes, wrapped, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across the text."""

    first: Content = EMPTY
    above: Content | None = EMPTY

    @property
    def plain(self) -> str:
        return self.first.plain

    def rows(self, width: int) -> list[Row]:
        length = max(1, width - self.first.cell_length)
        return [Row(self.first + Content.styled("─" * length, FAINT))]


@dataclass(frozen=True, slots=True)
class Table:
    """A table; its first line of cells is the header. Where it cannot fit, its source is shown."""

    cells: list[list[Content]]
    source: str
    first: Content = EMPTY
    rest: Content = EMPTY
    above: Content | None = EMPTY

    @property
    def plain(self) -> str:
        return self.first.plain + " ".join(cell.plain for line in self.cells for cell in line)

    def rows(self, width: int) -> list[Row]:
        inner = max(1, width - self.first.cell_length)
        widths = _column_widths(self.cells, inner)
        content = Content(self.source) if widths is None else _table(self.cells, widths)
        return Paragraph(content, self.first, self.rest).rows(width)


def _table(cells: list[list[Content]], widths: list[int]) -> Content:
    header, *lines = (_table_line(line, widths) for line in cells)
    rule = Content.styled(_COLUMN_RULE.join("─" * width for width in widths), FAINT)
    rows = [
        *(row.stylize("bold") for row in header),
        rule,
        *(row for line in lines for row in line),
    ]
    return Content("\n").join(rows)


def _column_widths(cells: list[list[Content]], available: int) -> list[int] | None:
    """Widths in cells: what each column needs, or the widest ones cut to one common limit."""
    needed = [max(_natural_width(cell) for cell in column) for column in zip(*cells, strict=True)]
    available -= len(_COLUMN_GAP) * (len(needed) - 1)
    widest = max(needed)
    for limit in range(widest, min(widest, _COLUMN_MIN) - 1, -1):
        widths = [min(width, limit) for width in needed]
        if sum(widths) <= available:
            return widths
    return None


def _natural_width(cell: Content) -> int:
    return max(1, *(line.cell_length for line in cell.split(allow_blank=True)))


def _table_line(cells: list[Content], widths: list[int]) -> list[Content]:
    """The rows of one line of a table, as many as its tallest cell needs."""
    columns = [cell.wrap(width) for cell, width in zip(cells, widths, strict=True)]
    return [
        Content.styled(_COLUMN_GAP, FAINT).join(
            part.pad_right(width - part.cell_length)
            for part, width in zip(parts, widths, strict=True)
        )
        for parts in zip_longest(*columns, fillvalue=EMPTY)
    ]
