"""Texts out of files, as an error line can hold them."""

from __future__ import annotations

_LONGEST = 80  # characters
_REASON = 300


def shown(text: str | bytes) -> str:
    """`text` in quotes, with what a terminal would obey escaped, and cut after 80 characters."""
    if isinstance(text, bytes):
        text = text[: 4 * _LONGEST].decode(errors="replace")
    return f"'{_cut(text, _LONGEST)}'"


def shown_reason(text: str) -> str:
    """The same, without quotes, of a whole sentence that llama.cpp says."""
    return _cut(text, _REASON)


def _cut(text: str, most: int) -> str:
    escaped = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode()
        for c in text[: most + 1]
    )
    return escaped if len(escaped) <= most else f"{escaped[:most]}…"
