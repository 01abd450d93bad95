"""A vocabulary of the 256 bytes and some control tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable


class ByteVocab:
    """Ids below 256 are bytes; the texts in `control`, then those in `user_defined`, have the ids
    that follow.
    """

    def __init__(
        self,
        control: Iterable[str],
        bos: str | None = None,
        eos: str | None = None,
        user_defined: Iterable[str] = (),
    ) -> None:
        self.control = {text: 256 + i for i, text in enumerate(control)}
        first = 256 + len(self.control)
        self.user_defined = {text: first + i for i, text in enumerate(user_defined)}
        self.size = first + len(self.user_defined)
        self.bos = None if bos is None else self.control[bos]
        self.eos = None if eos is None else self.control[eos]
        self.eog = frozenset({self.eos} if self.eos is not None else ())
        self.fingerprint = "bytes"
        self._texts = {token: text for text, token in self.user_defined.items()}

    def piece(self, token: int) -> bytes:
        assert 0 <= token < self.size, f"id {token} is outside the vocabulary"
        return bytes([token]) if token < 256 else self._texts.get(token, "").encode()

    def tokenize(self, text: str, *, special: bool = False, bos: bool = False) -> list[int]:
        assert not bos, "how many BOS there are is for the template to say"
        whole = self.user_defined | (self.control if special else {})
        longest_first = sorted(map(re.escape, whole), key=len, reverse=True)
        pieces = re.split("(" + "|".join(longest_first) + ")", text) if whole else [text]
        ids: list[int] = []
        for piece in pieces:
            ids += [whole[piece]] if piece in whole else piece.encode()
        return ids

    def show(self, ids: Iterable[int]) -> str:
        """The ids as text, all but bytes in double brackets."""
        names = self._texts | {token: text for text, token in self.control.items()}
        shown = b"".join(self.piece(t) if t < 256 else f"⟦{names[t]}⟧".encode() for t in ids)
        return shown.decode()
