"""What the engine asks of a vocabulary."""

from __future__ import annotations

from typing import Protocol


class Vocab(Protocol):
    """Token ids and what they stand for. Ids run from 0 to `size` - 1."""

    @property
    def size(self) -> int: ...

    @property
    def bos(self) -> int | None: ...

    @property
    def eos(self) -> int | None: ...

    @property
    def eog(self) -> frozenset[int]:
        """Every id that ends a generation; a model may have several."""
        ...

    @property
    def control(self) -> dict[str, int]:
        """Text of each control token and its id: text that a person must not be able to send."""
        ...

    @property
    def user_defined(self) -> dict[str, int]:
        """Text of each token that encoding matches wherever it stands, and its id. Some act as
        control tokens.
        """
        ...

    @property
    def fingerprint(self) -> str:
        """Hex digest over all tokens: equal exactly for vocabularies with the same content."""
        ...

    def piece(self, token: int) -> bytes:
        """The bytes that `token` adds to a text; empty for control tokens."""
        ...

    def tokenize(self, text: str, *, special: bool = False, bos: bool = False) -> list[int]:
        """Encode `text`.

        With `special`, the text of a control token becomes its id: for the literal parts of a
        template only, never for text that a person wrote. With `bos`, the beginning-of-sequence
        token is added where the vocabulary asks for one.
        """
        ...
