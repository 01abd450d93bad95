"""What comes between the marks of a bracketed paste is text, whatever is in it."""

from __future__ import annotations

_BEGIN, _END = "\x1b[200~", "\x1b[201~"
_ESCAPE, _VISIBLE_ESCAPE = "\x1b", "\u241b"


class PasteFilter:
    """Makes escape characters in pastes visible, before anything takes them for the beginning of a
    key: then a paste could press keys. Takes the terminal's input piece by piece, cut anywhere.
    """

    def __init__(self) -> None:
        self._inside = False
        self._held = ""
        """The end of a paste so far, where it may be the beginning of the mark that ends it."""
        self._last = ""
        """What was let through last, where the mark that begins a paste may have begun in it."""

    def __call__(self, data: str) -> str:
        result = ""
        while data:
            passed, data = self._in_paste(data) if self._inside else self._outside(data)
            result += passed
        return result

    def _outside(self, data: str) -> tuple[str, str]:
        """What passes, and what is left once a paste has begun. Nothing waits: it may be a key."""
        known = self._last + data
        place = known.find(_BEGIN)
        if place < 0:
            self._last = known[-len(_BEGIN) + 1 :]
            return data, ""
        self._inside, self._last = True, ""
        cut = place + len(_BEGIN) - (len(known) - len(data))
        return data[:cut], data[cut:]

    def _in_paste(self, data: str) -> tuple[str, str]:
        text, mark, rest = (self._held + data).partition(_END)
        self._inside = not mark
        self._held = "" if mark else _possible_mark(text)
        return text[: len(text) - len(self._held)].replace(_ESCAPE, _VISIBLE_ESCAPE) + mark, rest


def _possible_mark(text: str) -> str:
    """The end of `text` that may be the beginning of `_END`."""
    sizes = range(len(_END) - 1, 0, -1)
    return next((text[-size:] for size in sizes if text.endswith(_END[:size])), "")
