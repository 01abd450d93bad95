"""Heads for multi-token prediction in a target's own file (NextN layers): what is there, what runs.

llama.cpp ends the process where a graph of heads misses what it needs, so that is checked in the
header, before anything is loaded.
"""

from __future__ import annotations

from specengine.core.errors import ModelFileError
from specengine.files.feed_forward import DENSE, ROUTER
from specengine.files.gguf import GGUF
from specengine.files.shown import shown

_EVERY_HEAD = ("nextn.eh_proj", "nextn.enorm", "nextn.hnorm")

# What llama.cpp's graphs of these architectures ask of each head besides.
_NEEDS: dict[str, tuple[str, ...]] = {
    "glm4moe": (ROUTER,),
    "mimo2": ("attn_qkv", *DENSE),
    "nemotron_h_moe": (ROUTER, "nextn.shared_head_norm"),
    "qwen35": (),
    "qwen35moe": (ROUTER,),
    "qwen3next": (ROUTER,),
    "step35": (),
}
_ONE_FOR_EACH_TOKEN = ("mimo2", "step35")  # the others run one head, which repeats itself
_ANY_VALUE_LENGTH = ("mimo2", "step35")


def n_heads(target: GGUF) -> int:
    """How many heads the file says that it has."""
    return target.number("nextn_predict_layers", 0)


def check_own_heads(target: GGUF) -> None:
    """Raises ModelFileError, with the cause, where `target` cannot draft with heads of its own."""
    count, name = n_heads(target), target.path.name
    if count < 1:
        raise ModelFileError(f"{name} has no heads for multi-token prediction")
    if target.architecture not in _NEEDS:
        raise ModelFileError(
            f"{name} has {_counted(count)} for multi-token prediction, but specchat cannot use "
            f"those of the architecture {shown(target.architecture)}"
        )
    if count > 1 and target.architecture not in _ONE_FOR_EACH_TOKEN:
        raise ModelFileError(
            f"{name} has {_counted(count)}, but llama.cpp runs only one for the architecture "
            f"{shown(target.architecture)}"
        )
    if missing := _missing(target, count):
        raise ModelFileError(
            f"{name} says that it has {_counted(count)} for multi-token prediction, but lacks "
            f"{missing}: get the file that contains the heads"
        )
    if not _has_shape(target):
        raise ModelFileError(f"the heads of {name} have a shape that llama.cpp does not support")


def _counted(count: int) -> str:
    return "one head" if count == 1 else f"{count} heads"


def _missing(target: GGUF, count: int) -> str | None:
    """The first tensor that is needed and not there."""
    names = {tensor.name for tensor in target.tensors}
    for layer in range(target.n_layer - count, target.n_layer):
        block = f"blk.{layer}."
        dense = () if f"{block}{ROUTER}.weight" in names else DENSE
        for part in (*_EVERY_HEAD, *_NEEDS[target.architecture], *dense):
            if f"{block}{part}.weight" not in names:
                return f"{block}{part}.weight"
    return None


def _has_shape(target: GGUF) -> bool:
    if target.number("embedding_length_out", target.n_embd) != target.n_embd:
        return False
    if target.architecture in _ANY_VALUE_LENGTH:
        return True
    n_head = max(target.per_layer("attention.head_count", 1), default=1)
    lengths = [
        target.number(f"attention.{kind}_length", target.n_embd // max(n_head, 1))
        for kind in ("key", "value")
    ]
    return lengths[0] == lengths[1]
