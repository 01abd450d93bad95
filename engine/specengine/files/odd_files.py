"""GGUF files that are no language model of their own: what each is, and what to do instead."""

from __future__ import annotations

from specengine.files.gguf import GGUF
from specengine.files.shown import shown

_BY_TYPE = {
    "adapter": "a LoRA adapter, which changes a model and is none: merge the two with "
    "llama-export-lora",
    "mmproj": "the part of a model that reads images or sound: take the file with the model itself",
    "imatrix": "an importance matrix, which quantizing needs: take the model itself",
}
_BY_ARCHITECTURE = {
    "clip": _BY_TYPE["mmproj"],
    "controlvector": "a control vector, which steers a model and is none: take the model itself",
    "gemma4-assistant": "a drafter that lives in a Gemma 4 target's cache, which is not used here: "
    "take Gemma 4 itself, or another draft model for it",
    "t5encoder": "an encoder, which writes no text: take a chat model",
    "wavtokenizer-dec": "a decoder for sound: take a chat model",
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
        return known or f"of the kind {shown(gguf.kind)} and no language model: take a chat model"
    if known := _BY_ARCHITECTURE.get(gguf.architecture):
        return known
    if gguf.embeds_texts or any(part in gguf.architecture for part in _EMBEDDERS):
        return "a model that embeds texts and writes none: take a chat model"
    if not gguf.tensors:
        return "a vocabulary without a model: take the file with the weights"
    names = {tensor.name for tensor in gguf.tensors}
    if gguf.number("nextn_predict_layers", 0) > 0 and "blk.0.attn_norm.weight" not in names:
        return (
            "a file with a model's heads for multi-token prediction alone: take the model with "
            "the heads in its own file, and --draft mtp"
        )
    return None


def why_no_target(gguf: GGUF) -> str | None:
    """What a file is that cannot chat by itself; None where it may."""
    if gguf.architecture in _HEADS:
        return "a head, which drafts for one target: name it with --draft beside that"
    return kind_of_odd_file(gguf) or _without_vocabulary(gguf)


def why_no_draft(gguf: GGUF) -> str | None:
    """What a file is that cannot draft; None where it may, alone or as a head."""
    return kind_of_odd_file(gguf) or _without_vocabulary(gguf)


def _without_vocabulary(gguf: GGUF) -> str | None:
    tokenizer = gguf.metadata.get("tokenizer.ggml.model", "none")
    if tokenizer in _NO_VOCABULARY or not gguf.arrays.get("tokenizer.ggml.tokens"):
        return "a model without a vocabulary: convert it anew, with its tokenizer"
    return None
