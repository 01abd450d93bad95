"""Heads: files that draft from a target's hidden states. Does one belong to a target?

llama.cpp ends the process at many a head that does not fit, so everything that could make it do so
is checked in the headers, before anything is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specengine.core.errors import ModelFileError
from specengine.files.block_heads import DFLASH, kind_of_blocks, why_broken
from specengine.files.gguf import GGUF, Tensor
from specengine.files.shown import shown

EAGLE3 = "eagle3"
_FLOAT = 4

# Whose graphs in llama.cpp's src/models note the input of every layer, as wide as the embedding.
_RECORDED = frozenset(
    (
        "bailingmoe3",
        "gemma4",
        "gpt-oss",
        "hunyuan-dense",
        "hunyuan_vl",
        "lfm2",
        "lfm2moe",
        "llama",
        "mimo2",
        "minimax-m2",
        "muse-glimmer",
        "nanbeige",
        "nemotron_h",
        "nemotron_h_moe",
        "qwen3",
        "qwen35",
        "qwen35moe",
        "qwen3moe",
        "qwen3next",
    )
)

# Tensors that llama.cpp takes in no other type; conv_base: of the convolutions of DFlash 2.
_UNQUANTIZED = ("norm", "sinks", "rope_freqs", "layer_output_scale", "conv_base")

_WEIGHTS = ("F32", "F16", "BF16", "Q", "IQ", "TQ", "MXFP4", "NVFP4")  # how their types begin


def is_head(gguf: GGUF) -> bool:
    """Whether a file can only draft for the target that it was made for."""
    return gguf.architecture in (EAGLE3, DFLASH)


def kind_of_head(head: GGUF) -> str:
    """What the field calls it."""
    return "EAGLE-3" if head.architecture == EAGLE3 else kind_of_blocks(head)


def hidden_size(head: GGUF) -> int:
    """Numbers of each of the target's hidden states."""
    return head.n_embd if head.architecture == DFLASH else head.number("target_hidden_size", 0)


def target_layers(head: GGUF) -> list[int]:
    """The target's layers whose inputs the head reads, in its order."""
    layers: list[int] = head.numbers(f"{head.architecture}.target_layers").tolist()
    return layers


def feature_bytes(head: GGUF, n_ctx: int) -> int:
    """Memory for what the head reads of its target, with a context of `n_ctx` tokens."""
    return n_ctx * len(target_layers(head)) * hidden_size(head) * _FLOAT


def check_head(target: GGUF, head: GGUF) -> None:
    """Raises ModelFileError, with the cause, where `head` cannot draft for `target`."""
    if not target.tensors:
        raise ModelFileError(
            f"{head.path.name} needs the hidden states of its target, which a server does not "
            "send: use another drafter"
        )
    n_embd, layers = hidden_size(head), target_layers(head)
    if not layers or any(not isinstance(layer, int) for layer in layers):
        raise _broken(head, "it does not say which layers of its target it reads")
    if head.architecture == EAGLE3:
        _check_eagle3(head)
    elif cause := why_broken(head):
        raise _broken(head, cause)
    if n_embd != target.n_embd:
        raise ModelFileError(
            f"{head.path.name} reads hidden states of size {n_embd}, but those of "
            f"{target.path.name} have size {target.n_embd}: it belongs to another model"
        )
    check_layers(target, layers)
    _check_vocabulary(target, head)
    _check_shape(head)
    _check_tensors(target, head)


def check_layers(target: GGUF, layers: Sequence[int]) -> None:
    """Raises ModelFileError where the inputs of `layers` cannot be recorded of this model."""
    if target.architecture not in _RECORDED:
        raise ModelFileError(
            f"{target.path.name} has the architecture {shown(target.architecture)}, for which "
            "llama.cpp cannot give a head the hidden states it needs"
        )
    n_layers = target.n_layer - target.number("nextn_predict_layers", 0)
    for layer in layers:
        if not 0 <= layer < n_layers:
            raise ModelFileError(
                f"the head reads layer {layer} of its target, but {target.path.name} has "
                f"layers 0 to {n_layers - 1}: it belongs to another model"
            )


def _check_vocabulary(target: GGUF, head: GGUF) -> None:
    key = "tokenizer.ggml.tokens"
    if target.fingerprint(key) != head.fingerprint(key) or target.n_vocab != head.n_vocab:
        raise ModelFileError(
            f"the vocabulary of {head.path.name} is not that of {target.path.name}: "
            "it belongs to another model"
        )


def _check_eagle3(head: GGUF) -> None:
    n_read = len(target_layers(head))
    if n_read != 3:
        raise _broken(head, f"an EAGLE-3 head reads three layers, and it names {n_read}")
    n_layers = head.n_layer - head.number("nextn_predict_layers", 0)
    if head.n_layer != 1 or n_layers != 1:
        raise _broken(
            head, f"it has {n_layers} layers, but llama.cpp runs EAGLE-3 heads of one layer only"
        )


def _check_shape(head: GGUF) -> None:
    """The sizes at which llama.cpp would end the process or divide by zero."""
    n_out = head.number("embedding_length_out", head.n_embd)
    if n_out != head.n_embd:
        raise _broken(head, f"its input states have size {head.n_embd}, its output states {n_out}")
    n_head = head.number("attention.head_count", 0)
    n_head_kv = head.number("attention.head_count_kv", n_head)
    if n_head < 1 or n_head_kv < 1 or n_head % n_head_kv:
        raise _broken(head, f"it has {n_head} attention heads over {n_head_kv}")
    key, value = (
        head.number(f"attention.{kind}_length", head.n_embd // n_head) for kind in ("key", "value")
    )
    n_rot = head.number("rope.dimension_count", key)
    if key < 1 or key != value or n_rot > key or n_rot % 2 or n_rot < 2:
        raise _broken(
            head, f"its keys have {key} numbers, {n_rot} of them rotated, its values {value}"
        )


def _check_tensors(target: GGUF, head: GGUF) -> None:
    tensors = {tensor.name: tensor for tensor in head.tensors}
    for name, tensor in tensors.items():
        if name != "d2t" and not tensor.type_name.startswith(_WEIGHTS):
            raise _broken(head, f"its {shown(name)} has the type {tensor.type_name}")
        if any(part in name for part in _UNQUANTIZED) and tensor.type_name != "F32":
            raise _broken(head, f"its {shown(name)} has the type {tensor.type_name} instead of F32")
    _check_embeddings(target, head, tensors)
    _check_draft_ids(head, tensors)


def _check_embeddings(target: GGUF, head: GGUF, tensors: dict[str, Tensor]) -> None:
    own = tensors.get("token_embd.weight")
    if own is not None and own.shape != (head.n_embd, head.n_vocab):
        raise _broken(head, f"its token_embd.weight has the shape {own.shape}")
    borrows = [n for n in ("token_embd.weight", "output.weight") if n not in tensors]
    if borrows and head.n_embd != target.n_embd:
        raise _broken(
            head,
            f"it has no {borrows[0]} of its own, and the target's does not fit its size of "
            f"{head.n_embd} per token",
        )


def _check_draft_ids(head: GGUF, tensors: dict[str, Tensor]) -> None:
    """`d2t` gives the target's id of each row of the output matrix."""
    d2t, output = tensors.get("d2t"), tensors.get("output.weight")
    n_rows = output.shape[-1] if output is not None else head.n_vocab
    if d2t is None:
        if n_rows != head.n_vocab:
            raise _broken(head, f"it has an output of {n_rows} tokens but no d2t that names them")
        return
    if d2t.type_name != "I64" or d2t.shape != (n_rows,) or output is None:
        raise _broken(head, f"its d2t ({d2t.type_name}, {d2t.shape}) does not name its output")
    ids: NDArray[np.int64] = head.values(d2t, np.dtype("<i8"))
    if not len(ids) or ids.min() < 0 or ids.max() >= head.n_vocab or len(np.unique(ids)) < len(ids):
        raise _broken(head, "its d2t does not name different tokens of the vocabulary")


def _broken(head: GGUF, cause: str) -> ModelFileError:
    return ModelFileError(f"{head.path.name} cannot be used: {cause}")
