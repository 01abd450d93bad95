"""A model's vocabulary, read through llama.cpp."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
from typing import Any

from specengine.core.errors import BackendError
from specengine.llama import library

_NORMAL_OR_BYTE = (1 << 2) | (1 << 5)  # LLAMA_TOKEN_ATTR_NORMAL, _BYTE
_CONTROL_OR_UNKNOWN = (1 << 3) | (1 << 0)  # LLAMA_TOKEN_ATTR_CONTROL, _UNKNOWN
_USER_DEFINED = 1 << 4


class LlamaVocab:
    """Implements `specengine.core.vocab.Vocab`; lives as long as its model."""

    def __init__(self, handle: Any) -> None:
        self._llama = library.load()
        self.handle = handle
        self.size: int = self._llama.llama_vocab_n_tokens(handle)
        self._pieces: dict[int, bytes] = {}
        # Now, and not amid the first answer: large vocabularies take a tenth of a second.
        self._special = self._read_special()
        """Attributes of the tokens that are more than plain text."""
        self.eog = frozenset(t for t in self._special if self._llama.llama_vocab_is_eog(handle, t))

    @functools.cached_property
    def bos(self) -> int | None:
        return _token_or_none(self._llama.llama_vocab_bos(self.handle))

    @functools.cached_property
    def eos(self) -> int | None:
        return _token_or_none(self._llama.llama_vocab_eos(self.handle))

    @property
    def missing_at_ends(self) -> str | None:
        """The token that texts begin or end with, and that the vocabulary does not name: llama.cpp
        ends the process where it is asked for.
        """
        pairs = self._llama.llama_vocab_type(self.handle) == self._llama.LLAMA_VOCAB_TYPE_WPM
        if self.bos is None and (pairs or self._llama.llama_vocab_get_add_bos(self.handle)):
            return "BOS"
        if pairs and _token_or_none(self._llama.llama_vocab_sep(self.handle)) is None:
            return "SEP"
        ends = self._llama.llama_vocab_get_add_eos(self.handle)
        return "EOS" if ends and self.eos is None else None

    @functools.cached_property
    def control(self) -> dict[str, int]:
        return self._with_attribute(_CONTROL_OR_UNKNOWN)

    @functools.cached_property
    def user_defined(self) -> dict[str, int]:
        return self._with_attribute(_USER_DEFINED)

    @functools.cached_property
    def fingerprint(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for token in range(self.size):
            text = self.text(token)
            digest.update(len(text).to_bytes(4, "little") + text)
            digest.update(self._special.get(token, 0).to_bytes(4, "little"))
        return digest.hexdigest()

    def text(self, token: int) -> bytes:
        """The vocabulary's own spelling of `token` (control tokens included, bytes escaped)."""
        text: bytes = self._llama.llama_vocab_get_text(self.handle, token)
        return text

    def piece(self, token: int) -> bytes:
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._read_piece(token)
        return known

    def tokenize(self, text: str, *, special: bool = False, bos: bool = False) -> list[int]:
        data = text.encode("utf-8", "replace")
        tokens, n = self._tokenize(data, len(data) + 2, special, bos)
        if n < 0:
            tokens, n = self._tokenize(data, -n, special, bos)
        if n < 0:
            raise BackendError(f"llama.cpp could not tokenize a text of {len(data)} bytes")
        return list(tokens[:n])

    def _tokenize(
        self, data: bytes, capacity: int, special: bool, bos: bool
    ) -> tuple[ctypes.Array[ctypes.c_int32], int]:
        """Token ids and their number; the number is negative where `capacity` is too small."""
        tokens = (ctypes.c_int32 * capacity)()
        n = self._llama.llama_tokenize(self.handle, data, len(data), tokens, capacity, bos, special)
        return tokens, n

    def _with_attribute(self, wanted: int) -> dict[str, int]:
        return {
            self.text(token).decode("utf-8", "replace"): token
            for token, attributes in self._special.items()
            if attributes & wanted
        }

    def _read_special(self) -> dict[int, int]:
        if self._llama.llama_vocab_type(self.handle) == self._llama.LLAMA_VOCAB_TYPE_NONE:
            return {}  # a head's file: llama.cpp ends the process where it is asked for a token
        attributes = map(
            self._llama.llama_vocab_get_attr, itertools.repeat(self.handle), range(self.size)
        )
        return {token: attr for token, attr in enumerate(attributes) if attr & ~_NORMAL_OR_BYTE}

    def _read_piece(self, token: int) -> bytes:
        if not 0 <= token < self.size:
            raise BackendError(f"token id {token} is outside the vocabulary (0…{self.size - 1})")
        buffer = ctypes.create_string_buffer(64)
        n = self._llama.llama_token_to_piece(self.handle, token, buffer, len(buffer), 0, False)
        if n < 0:
            buffer = ctypes.create_string_buffer(-n)
            n = self._llama.llama_token_to_piece(self.handle, token, buffer, len(buffer), 0, False)
        return buffer.raw[:n]


def _token_or_none(token: int) -> int | None:
    return None if token < 0 else token
