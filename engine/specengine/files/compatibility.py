"""How may a draft model draft for a target? Decided from the headers, before anything is loaded.

Where ids mean the same in both vocabularies, draft tokens are ids. Where one vocabulary goes on
after the other ends (padding of the embedding matrix), the ids beyond the smaller are never
drafted. Different vocabularies meet by the bytes of their tokens, or by text. A head belongs to one
target, and has its vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from specengine.core.errors import ModelFileError, VocabMismatchError
from specengine.files.gguf import GGUF
from specengine.files.head_files import check_head, is_head
from specengine.files.shown import shown

Verdict = Literal["equal", "padded", "different"]

Way = Literal["ids", "tokens", "text", "head", "none"]
"""How drafts reach the target: as token ids (one vocabulary), as the tokens that both
vocabularies have, as text that is encoded for the target, or from the target's hidden states.
None: not at all.
"""

_TOKENS, _TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
_UNUSED = 5
_ROLES = ("bos", "eos", "eot")

# Of the draft model's tokens, the share that the target must have for drafts as tokens: what is
# missing can never be drafted, and it is the common words of code that differ. See
# docs/drafters.md for what was measured.
_ENOUGH_SHARED = 0.95

_BYTE_TOKEN = re.compile(rb"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True)
class Difference:
    """The first id that stands for different tokens, with the tokens as the files spell them."""

    token: int
    target: str
    draft: str


@dataclass(frozen=True)
class Comparison:
    """Two vocabularies side by side.

    Ids below `n_shared` mean the same in both. `overlap` is the share of the draft model's tokens
    that the target has, too, whatever their ids. `notices` are differences that leave the pair
    working, one line each. `mask_token` is the draft model's id for tokens to be drafted, where it
    can draft them all in one pass.
    """

    verdict: Verdict
    n_target: int
    n_draft: int
    n_shared: int
    way: Way
    overlap: float
    difference: Difference | None = None
    cause: str | None = None
    notices: tuple[str, ...] = ()
    mask_token: int | None = None


def compare(target: GGUF, draft: GGUF, mask_token: int | None = None) -> Comparison:
    """As `compare_vocabularies`; of a head also whether it was made for `target`, of a draft model
    also its mask token, as `find_mask_token` takes and finds it.
    """
    if not is_head(draft):
        comparison = compare_vocabularies(target, draft)
        mask = find_mask_token(draft, mask_token)
        # As text there is no telling which token of the target a row is for.
        return replace(comparison, mask_token=mask) if comparison.way != "text" else comparison
    n_target, n_draft = target.n_vocab, draft.n_vocab
    try:
        check_head(target, draft)
    except ModelFileError as error:
        return Comparison("different", n_target, n_draft, 0, "none", overlap=0.0, cause=str(error))
    return Comparison("equal", n_target, n_draft, n_draft, way="head", overlap=1.0)


def compare_vocabularies(target: GGUF, draft: GGUF) -> Comparison:
    """Compare what the ids of two models mean; special ids and BOS rules go into the notices."""
    sizes = (target.n_vocab, draft.n_vocab)
    for gguf in (target, draft):
        if not gguf.arrays.get(_TOKENS) or gguf.n_vocab == 0:
            cause = f"{gguf.path.name} has no vocabulary: get a complete file"
            return Comparison("different", *sizes, 0, way="none", overlap=0.0, cause=cause)
    difference = _first_difference(target, draft)
    if difference is not None or _kind(target) != _kind(draft):
        return _different(target, draft, difference)
    verdict: Verdict = "equal" if target.n_vocab == draft.n_vocab else "padded"
    notices = _notices(target, draft)
    return Comparison(verdict, *sizes, min(sizes), way="ids", overlap=1.0, notices=notices)


def require_compatible(target: GGUF, draft: GGUF, mask_token: int | None = None) -> Comparison:
    """As `compare`, of a pair that works. Raises VocabMismatchError for one that cannot."""
    comparison = compare(target, draft, mask_token)
    if comparison.way == "none":
        raise VocabMismatchError(
            f"{draft.path.name} cannot draft for {target.path.name}: {comparison.cause}; use "
            "another draft model, or draft by lookup (--draft lookup)"
        )
    return comparison


def find_mask_token(draft: GGUF, given: int | None = None) -> int | None:
    """The id that stands for tokens to be drafted: `given`, or the one that the file names.

    None: the model drafts token by token. Programs that convert PARD checkpoints drop their
    `pard_token`, so it has to be given. Raises ModelFileError where the vocabulary has no such id.
    """
    if given is not None and given >= draft.n_vocab:
        raise ModelFileError(
            f"the mask token {given} of {draft.path.name} is not in its vocabulary of "
            f"{draft.n_vocab} tokens: correct it in models.toml"
        )
    mask = draft.token_id("mask") if given is None else given
    return mask if mask is not None and mask < draft.n_vocab else None


def _different(target: GGUF, draft: GGUF, difference: Difference | None) -> Comparison:
    if difference is not None:
        cause = (
            f"id {difference.token} is {shown(difference.target)} in {target.path.name} "
            f"and {shown(difference.draft)} in {draft.path.name}"
        )
    else:
        cause = (
            f"the target's tokenizer is {shown(_kind(target))}, the draft model's is "
            f"{shown(_kind(draft))}"
        )
    known, tokens = set(_contents(target, draft)), _contents(draft, target)
    overlap = sum(token in known for token in tokens) / len(tokens)
    return Comparison(
        "different",
        target.n_vocab,
        draft.n_vocab,
        0 if difference is None else difference.token,
        "tokens" if overlap >= _ENOUGH_SHARED else "text",
        overlap,
        difference,
        cause,
    )


def _first_difference(target: GGUF, draft: GGUF) -> Difference | None:
    """The first id below both sizes that differs; ids that are unused in both never do."""
    if target.fingerprint(_TOKENS) == draft.fingerprint(_TOKENS):
        return None
    types = target.token_types().tolist(), draft.token_types().tolist()
    pairs = zip(target.tokens(), draft.tokens(), strict=False)
    for token, (one, other) in enumerate(pairs):
        if one != other and any(t[token : token + 1] != [_UNUSED] for t in types):
            return Difference(token, one.decode(errors="replace"), other.decode(errors="replace"))
    return None


def _kind(gguf: GGUF) -> str:
    return str(gguf.metadata.get("tokenizer.ggml.model", "unknown"))


def _contents(gguf: GGUF, other: GGUF) -> list[bytes]:
    """What the tokens of `gguf` stand for, to be compared with those of `other`."""
    tokens = gguf.tokens()
    if _kind(gguf) == _kind(other):
        return tokens  # spelled alike
    spelled = _from_letters if _kind(gguf) == "gpt2" else _from_sentencepiece
    return [spelled(token) for token in tokens]


def _from_letters(token: bytes) -> bytes:
    """Byte-level BPE writes each byte as a letter."""
    text = token.decode(errors="replace")
    if text.isascii():
        return token
    return bytes(_LETTERS[c] for c in text) if all(c in _LETTERS for c in text) else token


def _from_sentencepiece(token: bytes) -> bytes:
    """SentencePiece writes spaces as U+2581 and lone bytes in brackets."""
    if byte := _BYTE_TOKEN.fullmatch(token):
        return bytes([int(byte[1], 16)])
    return token.replace("▁".encode(), b" ")


def _byte_letters() -> dict[str, int]:
    """The letters of byte-level BPE: printable bytes stand for themselves, others for U+0100…"""
    printable: Iterable[int] = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
    letters = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if chr(byte) not in letters]
    return letters | {chr(0x100 + n): byte for n, byte in enumerate(others)}


_LETTERS = _byte_letters()


def _notices(target: GGUF, draft: GGUF) -> tuple[str, ...]:
    notices = []
    if target.n_vocab != draft.n_vocab:
        smaller = min(target.n_vocab, draft.n_vocab)
        notices.append(
            f"the target has {target.n_vocab} token ids, the draft model {draft.n_vocab}: ids "
            f"from {smaller} on are never drafted"
        )
    for role in _ROLES:
        ids = target.token_id(role), draft.token_id(role)
        if ids[0] != ids[1]:
            notices.append(
                f"{role.upper()} is token {ids[0]} in the target, {ids[1]} in the draft model"
            )
    adds = [gguf.metadata.get("tokenizer.ggml.add_bos_token") for gguf in (target, draft)]
    if adds[0] != adds[1]:
        notices.append(f"add_bos is {adds[0]} in the target, {adds[1]} in the draft model")
    return tuple(notices)
