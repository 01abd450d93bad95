"""Tensors of recurrent layers that llama.cpp does not miss before it computes with them."""

from __future__ import annotations

from specengine.files.gguf import GGUF

_MARK = "ssm_conv1d.weight"
"""Every recurrent layer of these architectures has it: llama.cpp checks that."""

_Ways = tuple[tuple[str, ...], ...]
_SPLIT = ("attn_qkv.weight", "attn_gate.weight")
_BIAS: _Ways = (("ssm_conv1d.bias",),)

# What stands beside the mark, in one of several ways; by the loaders in llama.cpp's src/models.
_NEEDED: dict[str, _Ways] = {
    "falcon-h1": _BIAS,
    "granitehybrid": _BIAS,
    "nemotron_h": _BIAS,
    "nemotron_h_moe": _BIAS,
    "qwen35": (_SPLIT,),
    "qwen35moe": (_SPLIT,),
    "qwen3next": (_SPLIT, ("ssm_in.weight",)),
}


def missing_beside_recurrence(gguf: GGUF) -> str | None:
    """The first such tensor that a layer lacks; None where all are there."""
    ways = _NEEDED.get(gguf.architecture)
    if ways is None:
        return None
    names = {tensor.name for tensor in gguf.tensors}
    for name in sorted(names):
        block, _, part = name.removesuffix(_MARK).rpartition(".")
        if not name.endswith(f".{_MARK}") or part:
            continue
        if not any(all(f"{block}.{each}" in names for each in way) for way in ways):
            return next(f"{block}.{each}" for each in ways[0] if f"{block}.{each}" not in names)
    return None
