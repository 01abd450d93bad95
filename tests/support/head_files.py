"""Heads of random weights, and their files: hyperparameters, tensors, their target's tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gguf
from numpy.typing import NDArray

from support.gguf_files import write_out
from support.numpy_layers import EPSILON, ROPE_BASE

N_HEAD, N_HEAD_KV, HEAD_DIM = 4, 2, 32
N_FF = 96


@dataclass
class RandomHead:
    """`metadata` has the architecture's entries by the names that follow its own, and the
    tokenizer's. The tensor d2t, if any, is the target's id of each of the head's own tokens.
    """

    architecture: str
    n_embd: int
    n_vocab: int
    tensors: dict[str, NDArray[Any]]
    metadata: dict[str, Any]


def write_head(
    path: Path,
    head: RandomHead,
    vocabulary: Path | None,
    *,
    quantization: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    metadata: Mapping[str, Any] | None = None,
    tensors: Mapping[str, NDArray[Any] | None] | None = None,
) -> Path:
    """Write `head` with the tokenizer of the file `vocabulary`, or with tokens without text.
    `metadata` and `tensors` replace what is written, or leave it out where they say None.
    """
    writer = gguf.GGUFWriter(path, head.architecture)
    for key, value in {**_shape(head), **head.metadata, **(metadata or {})}.items():
        whole = key.startswith("tokenizer.")
        _add(writer, key if whole else f"{head.architecture}.{key}", value)
    if vocabulary is None:
        writer.add_tokenizer_model("none")
        writer.add_vocab_size(head.n_vocab)
    else:
        for key, value, kinds in _tokenizer(vocabulary):
            sub_type = kinds[-1] if isinstance(value, list) else None
            writer.add_key_value(key, value, kinds[0], sub_type=sub_type)
    for name, values in {**head.tensors, **(tensors or {})}.items():
        if values is None:
            continue
        if values.dtype.kind == "i":
            writer.add_tensor(name, values)
        elif "norm" in name or quantization == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, values.astype("float32"))
        else:
            data = gguf.quantize(values.astype("float32"), quantization)
            writer.add_tensor(name, data, raw_dtype=quantization)
    return write_out(writer, path)


def _shape(head: RandomHead) -> dict[str, Any]:
    return {
        "context_length": 1024,
        "embedding_length": head.n_embd,
        "feed_forward_length": N_FF,
        "attention.head_count": N_HEAD,
        "attention.head_count_kv": N_HEAD_KV,
        "attention.key_length": HEAD_DIM,
        "attention.value_length": HEAD_DIM,
        "attention.layer_norm_rms_epsilon": EPSILON,
        "rope.dimension_count": HEAD_DIM,
        "rope.freq_base": ROPE_BASE,
    }


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


@cache
def _tokenizer(path: Path) -> list[tuple[str, Any, list[gguf.GGUFValueType]]]:
    fields = gguf.GGUFReader(path).fields
    return [
        (name, entry.contents(), entry.types)
        for name, entry in fields.items()
        if name.startswith("tokenizer.") and name != "tokenizer.chat_template"
    ]
