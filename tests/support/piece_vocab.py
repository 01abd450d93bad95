"""A vocabulary of any byte strings, which encodes by the longest that fits."""

from __future__ import annotations

from collections.abc import Sequence


class PieceVocab:
    """Token i stands for `pieces[i]`; the texts in `control` have the ids that follow.

    With `spaced`, text is encoded with a space before it, as some SentencePiece models do.
    """

    def __init__(
        self,
        pieces: Sequence[bytes],
        control: Sequence[str] = (),
        *,
        bos: str | None = None,
        eos: str | None = None,
        spaced: bool = False,
    ) -> None:
        self._pieces = list(pieces)
        self._longest = max(map(len, pieces))
        self._ids = {piece: token for token, piece in enumerate(pieces)}
        self._spaced = spaced
        self.control = {text: len(pieces) + i for i, text in enumerate(control)}
        self.user_defined: dict[str, int] = {}
        self.size = len(pieces) + len(control)
        self.bos = None if bos is None else self.control[bos]
        self.eos = None if eos is None else self.control[eos]
        self.eog = frozenset({self.eos} if self.eos is not None else ())
        self.fingerprint = f"pieces-{self.size}"

    def piece(self, token: int) -> bytes:
        assert 0 <= token < self.size, f"id {token} is outside the vocabulary"
        return self._pieces[token] if token < len(self._pieces) else b""

    def tokenize(self, text: str, *, special: bool = False, bos: bool = False) -> list[int]:
        data = text.encode()
        if self._spaced and data:
            data = b" " + data
        ids = [self.bos] if bos and self.bos is not None else []
        while data:
            n = next(n for n in range(self._longest, 0, -1) if data[:n] in self._ids)
            ids.append(self._ids[data[:n]])
            data = data[n:]
        return ids

    def text(self, ids: Sequence[int]) -> bytes:
        return b"".join(map(self.piece, ids))
