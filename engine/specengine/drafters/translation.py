"""Between two vocabularies: which tokens both have, and one text in the tokens of the other."""

from __future__ import annotations

import codecs
from functools import cached_property

import numpy as np

from specengine.core.tokens import TokenBuffer, Tokens, common_prefix
from specengine.core.vocab import Vocab

_NOWHERE = -1  # in the middle of a character


class SharedTokens:
    """The tokens that a target and a draft model both have: equal bytes, or equal control text.

    `target_ids` (ascending) and `draft_ids` have shape (n,) and belong together.
    """

    def __init__(self, target: Vocab, draft: Vocab) -> None:
        drafts = _by_content(draft)
        pairs = {id_: drafts[key] for key, id_ in _by_content(target).items() if key in drafts}
        if target.eos is not None and draft.eos is not None:
            pairs.setdefault(target.eos, draft.eos)  # by whatever name: here the text ends
        self.target_ids = np.array(sorted(pairs), dtype=np.int32)
        self.draft_ids = np.array([pairs[id_] for id_ in sorted(pairs)], dtype=np.int32)
        self._draft_ids = pairs

    def __len__(self) -> int:
        return len(self.target_ids)

    def to_draft(self, token: int) -> int | None:
        """The draft model's id of a target's token, None where it has none."""
        return self._draft_ids.get(token)


def _by_content(vocab: Vocab) -> dict[bytes | str, int]:
    """Ids by the bytes of ordinary tokens and the text of control tokens.

    Of several ids for the same bytes it is the last: vocabularies that have single bytes beside
    the letters have them first, for what nothing else covers.
    """
    pieces = ((vocab.piece(token), token) for token in range(vocab.size))
    ids: dict[bytes | str, int] = {piece: token for piece, token in pieces if piece}
    return ids | dict(vocab.control.items())


class Translation:
    """A draft model's tokens for a text that comes in the target's tokens, token by token.

    A token that the draft model has, too, stays one; others are encoded by their bytes, together
    with their neighbours where they hold parts of characters. This is not how the draft model
    would cut the text, but it drafts the better in the target's tokens for having read them, and
    what comes later changes nothing before. It follows the text like a cache.
    """

    def __init__(self, target: Vocab, draft: Vocab, shared: SharedTokens) -> None:
        self._target, self._draft, self._shared = target, draft, shared
        self._control_text = {token: text for text, token in target.control.items()}
        self._text = TokenBuffer()
        self._encoded = TokenBuffer(draft.tokenize("", bos=True))
        self._start = len(self._encoded)
        # After each of the target's tokens, how many of the draft model's there are.
        self._ends = TokenBuffer()

    def follow(self, text: Tokens) -> Tokens:
        """The draft model's tokens for `text`: a view, valid until the next call."""
        kept = common_prefix(self._text.view(), text)
        if kept < max(len(text), len(self._text)):
            self._drop_after(kept)
            self._extend(text[len(self._text) :])
        return self._encoded.view()

    def _drop_after(self, length: int) -> None:
        """Drop the target's tokens from `length` on, and before it a character without its end."""
        ends = self._ends.view()
        while length and ends[length - 1] == _NOWHERE:
            length -= 1
        self._encoded.truncate(int(ends[length - 1]) if length else self._start)
        self._ends.truncate(length)
        self._text.truncate(length)

    def _extend(self, tokens: Tokens) -> None:
        group: list[int] = []
        for token in tokens.tolist():
            group.append(token)
            end = _NOWHERE
            if not split_complete(self._bytes(group))[1]:
                self._encoded.extend(self._encode(group))
                end = len(self._encoded)
                group = []
            self._ends.append(end)
        self._encoded.extend(self._encode(group))
        self._text.extend(tokens)

    def _encode(self, group: list[int]) -> list[int]:
        if len(group) == 1 and (id_ := self._shared.to_draft(group[0])) is not None:
            return [id_]
        text, rest = split_complete(self._bytes(group))
        single = (self._single_bytes.get(rest[i : i + 1]) for i in range(len(rest)))
        return [*tokenize_part(self._draft, text), *(id_ for id_ in single if id_ is not None)]

    def _bytes(self, group: list[int]) -> bytes:
        """Those of a control token are its text: the draft model has to see that there is one."""
        pieces = (self._target.piece(t) or self._control_text.get(t, "").encode() for t in group)
        return b"".join(pieces)

    @cached_property
    def _single_bytes(self) -> dict[bytes, int]:
        """The draft model's tokens for parts of characters."""
        pieces = ((self._draft.piece(token), token) for token in range(self._draft.size))
        return {piece: token for piece, token in pieces if len(piece) == 1}


def split_complete(data: bytes) -> tuple[str, bytes]:
    """The complete characters of UTF-8 `data`, and what there is of one more."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data)
    return text, decoder.getstate()[0]


def tokenize_part(vocab: Vocab, text: str) -> list[int]:
    """Encode `text` as a part of a longer one.

    Some tokenizers put a space before whatever they are given: then it must not be there already.
    """
    if not text:
        return []
    start = vocab.tokenize("a")
    if not start or not vocab.piece(start[0]).startswith(b" "):
        return vocab.tokenize(text)
    if text.startswith(" ") and len(text) > 1:
        return vocab.tokenize(text[1:])
    tokens = vocab.tokenize(text)
    return tokens[1:] if len(tokens) > 1 and vocab.piece(tokens[0]) == b" " else tokens
