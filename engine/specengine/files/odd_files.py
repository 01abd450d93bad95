"""GGUF files that are no language model of their own: what each is, and what to do instead."""

from __future__ import annotations

from specengine.files.gguf import GGUF
from specengine.files.shown import shown

_BY_TYPE = {
    "adapter": "a LoRA adapter, not a model: merge it into its model with llama-export-lora",
    "mmproj": "the part of a model that reads images or sound: use the file of the model itself",
    "imatrix": "an importance matrix, which is only used for quantizing: use the model itself",
}
_BY_ARCHITECTURE = {
    "clip": _BY_TYPE["mmproj"],
    "controlvector": "a control vector, not a model: use the model itself",
    "gemma4-assistant": (
        "a drafter that shares the cache of a Gemma 4 target, which specchat does not support: "
        "use Gemma 4 itself, or another draft model for it"
    ),
    "t5encoder": "an encoder, which cannot write text: use a chat model",
    "wavtokenizer-dec": "a decoder for sound: use a chat model",
}
_HEADS = ("eagle3", "dflash")
_EMBEDDERS = ("bert", "gemma-embedding", "llama-embed")
_NO_VOCABULARY = ("none", "no_vocab")


def kind_of_odd_file(gguf: GGUF) -> str | None:
    """What a file is that llama.cpp does not run as a language model; None where it may be one.

    Heads for a target may be, since they are loaded as such.
    """
    if gguf.kind != "model":
        known = _BY_TYPE.get(gguf.kind)
        return known or (
            f"a file of the kind {shown(gguf.kind)}, not a language model: use a chat model"
        )
    if known := _BY_ARCHITECTURE.get(gguf.architecture):
        return known
    if gguf.embeds_texts or any(part in gguf.architecture for part in _EMBEDDERS):
        return "an embedding model, which cannot write text: use a chat model"
    if not gguf.tensors:
        return "a vocabulary without a model: use the file with the weights"
    names = {tensor.name for tensor in gguf.tensors}
    if gguf.number("nextn_predict_layers", 0) > 0 and "blk.0.attn_norm.weight" not in names:
        return (
            "a file with nothing but a model's heads for multi-token prediction: use the model "
            "file that contains the heads, and --draft mtp"
        )
    return None


def why_no_target(gguf: GGUF) -> str | None:
    """What a file is that cannot chat by itself; None where it may."""
    if gguf.architecture in _HEADS:
        return "a head, which drafts for one target: give it to --draft, and its target to --target"
    return kind_of_odd_file(gguf) or _without_vocabulary(gguf)


def why_no_draft(gguf: GGUF) -> str | None:
    """What a file is that cannot draft; None where it may, alone or as a head."""
    return kind_of_odd_file(gguf) or _without_vocabulary(gguf)


def _without_vocabulary(gguf: GGUF) -> str | None:
    tokenizer = gguf.metadata.get("tokenizer.ggml.model", "none")
    if tokenizer in _NO_VOCABULARY or not gguf.arrays.get("tokenizer.ggml.tokens"):
        return "a model without a vocabulary: convert it again, with its tokenizer"
    return None
