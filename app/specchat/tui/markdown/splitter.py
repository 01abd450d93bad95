"""Cuts growing markdown into segments that later text can no longer change.

CommonMark closes a list only where something else begins, so a parser that is asked again at each
token reads a long list again and again. Here each item of a list is a segment of its own, a fence
ends where its closing line does, and everything else at a blank line; what is cut off is parsed
once and never again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r" {0,3}(?P<marks>`{3,}(?=[^`]*$)|~{3,})")
_ITEM = re.compile(r"(?P<indent> {0,3})(?P<marker>[-*+]|(?P<number>\d{1,9})[.)])(?P<space> +|$)")
_HEADING = re.compile(r" {0,3}#{1,6}(?: |$)")
_CODE_INDENT = 4


@dataclass(frozen=True, slots=True)
class Segment:
    """A closed piece of source. `loose`: an empty row belongs above it."""

    source: str
    loose: bool


class Splitter:
    """Feeds on text in any pieces; hands out segments as they close."""

    def __init__(self) -> None:
        self._partial = ""
        self._lines: list[str] = []
        self._fence: str | None = None
        self._indent: int | None = None
        self._blank_before = False
        self._after_item = False
        self._loose = False

    @property
    def fence(self) -> str:
        """The mark that opened the code at the end; empty if there is none."""
        return self._fence or ""

    @property
    def in_fence(self) -> bool:
        """Whether the open segment is a code fence at the top level."""
        return self._fence is not None

    @property
    def tail(self) -> str:
        """The source of the open segment; of a fence's first line only the language."""
        lines = self._lines
        if self.in_fence:
            language = lines[0].strip(" `~")
            lines = [language, *lines[1:]] if language else lines[1:]
        return "\n".join([*lines, self._partial])

    @property
    def loose(self) -> bool:
        """Whether an empty row belongs above the open segment."""
        return self._loose if self._lines else self._is_loose(self._partial)

    def feed(self, text: str) -> list[Segment]:
        *lines, self._partial = (self._partial + text).split("\n")
        return [segment for line in lines for segment in self._line(line)]

    def close(self) -> list[Segment]:
        """The end of the text: what is still open."""
        return [*self.feed("\n"), *self._cut()]

    def _line(self, line: str) -> list[Segment]:
        if self._fence is not None:
            self._lines.append(line)
            self._blank_before = False
            return self._cut() if _closes(self._fence, line) else []
        blank = not line.strip()
        closed = [] if self._continues(line, blank) else self._cut()
        if self._lines:
            self._lines.append(line)
        elif not blank:
            closed += self._open(line)
        self._blank_before = blank
        return closed

    def _open(self, line: str) -> list[Segment]:
        self._lines.append(line)
        self._loose = self._is_loose(line)
        if _HEADING.match(line):
            return self._cut()
        if fence := _FENCE.match(line):
            self._fence = fence["marks"]
        elif item := _ITEM.match(line):
            self._indent = _content_offset(item)
        elif _indent_of(line) >= _CODE_INDENT:
            self._indent = _CODE_INDENT
        return []

    def _continues(self, line: str, blank: bool) -> bool:
        """Whether `line` belongs to the open segment."""
        if not self._lines:
            return False
        if self._indent is None:
            return not blank and not _interrupts_paragraph(line)
        if blank or _indent_of(line) >= self._indent:
            return True
        return not self._blank_before and not _starts_block(line)

    def _is_loose(self, first_line: str) -> bool:
        """Only items of one list stand close together, where no blank line parts them."""
        return self._blank_before or not (self._after_item and _ITEM.match(first_line))

    def _cut(self) -> list[Segment]:
        if not self._lines:
            return []
        self._after_item = _ITEM.match(self._lines[0]) is not None
        segment = Segment("\n".join(self._lines), self._loose)
        self._lines = []
        self._fence = self._indent = None
        return [segment]


def _indent_of(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip(" "))


def _content_offset(item: re.Match[str]) -> int:
    """The column where an item's own text begins; lines indented to it belong to the item."""
    marker_end = len(item["indent"]) + len(item["marker"])
    spaces = len(item["space"])
    return marker_end + (spaces if 1 <= spaces <= _CODE_INDENT else 1)


def _starts_block(line: str) -> bool:
    return any(pattern.match(line) for pattern in (_ITEM, _HEADING, _FENCE))


def _interrupts_paragraph(line: str) -> bool:
    """A sentence may begin a line with a year and a full stop: only "1." starts a list then. A mark
    with nothing behind it is no item there, but the sign between two numbers.
    """
    item = _ITEM.match(line)
    if item and not line[item.end() :].strip():
        return False
    if item and item["number"]:
        return int(item["number"]) == 1
    return _starts_block(line)


def _closes(fence: str, line: str) -> bool:
    mark = line.strip()
    return set(mark) == {fence[0]} and len(mark) >= len(fence) and _indent_of(line) < _CODE_INDENT
