"""Text as the terminal may show it: whoever wrote it, nothing in it is obeyed."""

from __future__ import annotations

import re

_LINE_BREAKS = re.compile("\r\n|\x85|\u2028|\u2029")

# Characters that a terminal acts on, or that reorder what is beside them, and what to show instead.
_VISIBLE: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **{code: f"⟨U+{code:04X}⟩" for code in range(0x80, 0xA0)},
    **{code: f"⟨U+{code:04X}⟩" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))},
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}


def printable(text: str) -> str:
    """`text` with control characters made visible and every kind of line break as a newline."""
    return _LINE_BREAKS.sub("\n", text).translate(_VISIBLE)


def one_line(text: str) -> str:
    """`printable` text on a single line: for titles, file names and errors."""
    return " ".join(printable(text).split())
