"""May a draft model draft for a target? Decided from the headers, before anything is loaded.

Draft tokens are ids: they must mean the same in both vocabularies. Where one vocabulary goes on
after the other ends (padding of the embedding matrix), the ids beyond the smaller are never
drafted, and the pair works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specengine.errors import VocabMismatchError
from specengine.gguf import GGUF

Verdict = Literal["equal", "padded", "different"]

_TOKENS, _TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
_UNUSED = 5
_ROLES = ("bos", "eos", "eot")


@dataclass(frozen=True)
class Difference:
    """The first id that stands for different tokens, with the tokens as the files spell them."""

    token: int
    target: str
    draft: str


@dataclass(frozen=True)
class Comparison:
    """Two vocabularies side by side.

    Ids below `n_shared` mean the same in both. `notices` are differences that leave the pair
    working, one line each.
    """

    verdict: Verdict
    n_target: int
    n_draft: int
    n_shared: int
    difference: Difference | None = None
    cause: str | None = None
    notices: tuple[str, ...] = ()


def compare_vocabularies(target: GGUF, draft: GGUF) -> Comparison:
    """Compare what the ids of two models mean; special ids and BOS rules go into the notices."""
    sizes = (target.n_vocab, draft.n_vocab)
    if cause := _incomparable(target, draft):
        return Comparison("different", *sizes, n_shared=0, cause=cause)
    if difference := _first_difference(target, draft):
        cause = (
            f"id {difference.token} is {difference.target!r} in {target.path.name} "
            f"and {difference.draft!r} in {draft.path.name}"
        )
        return Comparison("different", *sizes, difference.token, difference, cause)
    verdict: Verdict = "equal" if target.n_vocab == draft.n_vocab else "padded"
    return Comparison(verdict, *sizes, min(sizes), notices=_notices(target, draft))


def require_compatible(target: GGUF, draft: GGUF) -> Comparison:
    """The comparison of a pair that works. Raises VocabMismatchError for one that cannot."""
    comparison = compare_vocabularies(target, draft)
    if comparison.verdict == "different":
        raise VocabMismatchError(
            f"{draft.path.name} cannot draft for {target.path.name}: {comparison.cause}; "
            "take a draft model of the target's own family, or draft by lookup"
        )
    return comparison


def _incomparable(target: GGUF, draft: GGUF) -> str | None:
    for gguf in (target, draft):
        if not gguf.arrays.get(_TOKENS) or gguf.n_vocab == 0:
            return f"{gguf.path.name} carries no vocabulary"
    kinds = [gguf.metadata.get("tokenizer.ggml.model") for gguf in (target, draft)]
    if kinds[0] != kinds[1]:
        return f"the target's tokenizer is of the kind {kinds[0]!r}, the draft's {kinds[1]!r}"
    return None


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


def _notices(target: GGUF, draft: GGUF) -> tuple[str, ...]:
    notices = []
    if target.n_vocab != draft.n_vocab:
        smaller = min(target.n_vocab, draft.n_vocab)
        notices.append(
            f"the target has {target.n_vocab} ids, the draft {draft.n_vocab}: "
            f"ids from {smaller} on are never drafted"
        )
    for role in _ROLES:
        ids = target.token_id(role), draft.token_id(role)
        if ids[0] != ids[1]:
            notices.append(f"{role.upper()} is id {ids[0]} in the target, {ids[1]} in the draft")
    adds = [gguf.metadata.get("tokenizer.ggml.add_bos_token") for gguf in (target, draft)]
    if adds[0] != adds[1]:
        notices.append(f"add_bos is {adds[0]} in the target, {adds[1]} in the draft")
    return tuple(notices)
