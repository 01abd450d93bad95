"""Files of block heads (architecture `dflash`): how their blocks are made, and which are broken.

Three kinds share the architecture: DFlash (Chen et al. 2026), DSpark, which leans each row towards
what may follow the best token of the row before it, and DFlash 2, which names candidates for each
draft token and tells how they go together.
"""

from __future__ import annotations

from dataclasses import dataclass

from specengine.files.gguf import GGUF

DFLASH = "dflash"

_BLOCK = 16  # llama.cpp's own default


@dataclass(frozen=True, slots=True)
class BlockShape:
    """How a block is made."""

    size: int
    """Most tokens of a block, the last token of the text included."""
    mask: int
    """Id of the mask token, which stands for each draft token."""
    anchored: bool = False
    """Whether the row of the text's last token gives the first draft token, too."""
    causal: bool = False
    """Whether a token of the block sees only those before it."""
    n_candidates: int = 0
    """How many candidates the head names for each draft token; 0 if it names none."""

    @property
    def longest(self) -> int:
        """Draft tokens that it gives at most."""
        return self.size if self.anchored else self.size - 1


def kind_of_blocks(head: GGUF) -> str:
    """What the field calls it."""
    return "DSpark" if _has_markov(head) else "DFlash 2" if _has_selector(head) else "DFlash"


def block_shape(head: GGUF) -> BlockShape:
    """What the header tells. `why_broken` has found nothing."""
    mask = head.token_id("mask")
    assert mask is not None
    return BlockShape(
        head.number("block_size", _BLOCK),
        mask,
        anchored=_has_markov(head) and head.metadata.get("dflash.sample_from_anchor") is not False,
        causal=head.metadata.get("dflash.attention.causal") is True,
        n_candidates=head.number("selector_top_k", 0) if _has_selector(head) else 0,
    )


def why_broken(head: GGUF) -> str | None:
    """What would make llama.cpp end the process with this file, or keep it from drafting."""
    mask = head.token_id("mask")
    if mask is None or not 0 <= mask < head.n_vocab:
        named = "names none" if mask is None else f"names {mask}, which is not in the vocabulary"
        return f"a block head needs a mask token, and it {named}"
    if head.number("hyper_connection.count", 0):
        return "it has hyper-connections (DeepSeek V4), which specchat does not support"
    markov, selector = _has_markov(head), _has_selector(head)
    if markov and selector:
        return "it has both a Markov head and a selector"
    if markov and "dflash.block_size" not in head.metadata:
        return "it has a Markov head but no block_size"
    if block_shape(head).longest < 1:
        return f"its blocks of {head.number('block_size', _BLOCK)} tokens leave no room for a draft"
    if selector and not 0 < head.number("selector_top_k", 0) <= head.n_vocab:
        return f"its selector names {head.number('selector_top_k', 0)} candidates"
    return None


def _has_markov(head: GGUF) -> bool:
    return _has(head, "markov_w1.weight")


def _has_selector(head: GGUF) -> bool:
    return _has(head, "selector_hidden.weight")


def _has(head: GGUF, name: str) -> bool:
    return any(tensor.name == name for tensor in head.tensors)
