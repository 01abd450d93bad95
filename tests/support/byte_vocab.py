"""A vocabulary of the 256 bytes and some control tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable


class ByteVocab:
    """Ids below 256 are bytes; the texts in `control` have the ids that follow."""

    def __init__(self, control: Iterable[str], bos: str | None = None, eos: str | None = None):
        self.control = {text: 256 + i for i, text in enumerate(control)}
        self.size = 256 + len(self.control)
        self.bos = None if bos is None else self.control[bos]
        self.eos = None if eos is None else self.control[eos]
        self.eog = frozenset({self.eos} if self.eos is not None else ())
        self.fingerprint = "bytes"
        longest_first = sorted(self.control, key=len, reverse=True)
        self._special = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")

    def piece(self, token: int) -> bytes:
        assert 0 <= token < self.size, f"id {token} is outside the vocabulary"
        return bytes([token]) if token < 256 else b""

    def tokenize(self, text: str, *, special: bool = False, bos: bool = False) -> list[int]:
        assert not bos, "how many BOS there are is for the template to say"
        pieces = self._special.split(text) if special and self.control else [text]
        ids: list[int] = []
        for piece in pieces:
            is_control = special and piece in self.control
            ids += [self.control[piece]] if is_control else piece.encode()
        return ids

    def show(self, ids: Iterable[int]) -> str:
        """The ids as text, control tokens in double brackets."""
        names = {token: text for text, token in self.control.items()}
        shown = b"".join(self.piece(t) if t < 256 else f"⟦{names[t]}⟧".encode() for t in ids)
        return shown.decode()
