"""Writes the files of heads: hyperparameters, tensors, and the tokenizer of their target."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import gguf
from numpy.typing import NDArray


def write_file(
    path: Path,
    architecture: str,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any] | None],
    vocabulary: Path | int,
    quantization: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
) -> Path:
    """`vocabulary`: a model file whose tokenizer is copied, or a number of tokens without text.

    Entries and tensors that are None are left out. `metadata` are the architecture's, by the names
    that follow its own, and the tokenizer's.
    """
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in metadata.items():
        whole = key.startswith("tokenizer.")
        _add(writer, key if whole else f"{architecture}.{key}", value)
    if isinstance(vocabulary, int):
        writer.add_tokenizer_model("none")
        writer.add_vocab_size(vocabulary)
    else:
        for key, value, kinds in _tokenizer(vocabulary):
            sub_type = kinds[-1] if isinstance(value, list) else None
            writer.add_key_value(key, value, kinds[0], sub_type=sub_type)
    for name, values in tensors.items():
        if values is None:
            continue
        if values.dtype.kind == "i":
            writer.add_tensor(name, values)
        elif "norm" in name or quantization == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, values.astype("float32"))
        else:
            data = gguf.quantize(values.astype("float32"), quantization)
            writer.add_tensor(name, data, raw_dtype=quantization)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


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
