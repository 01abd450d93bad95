"""A vocabulary without its model: out of one GGUF file, and into another that has nothing else.

llama.cpp loads such a file as it loads a model's vocabulary. Whoever gets a vocabulary this way
encodes and decodes exactly as the model's owner does.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from specengine.core.errors import ModelFileError
from specengine.files.gguf import GGUF, Value
from specengine.files.gguf_bytes import STRING, array_entry, entry, header, string
from specengine.files.shown import shown

_PREFIX = "tokenizer."
_GENERAL = ("general.architecture", "general.name")
# Type numbers and struct letters of GGUF, by the names that the protocol gives them.
_NUMBERS = {"u8": (0, "B"), "i8": (1, "b"), "u32": (4, "I"), "i32": (5, "i"), "f32": (6, "f")}
_NAMES = {number: name for name, (number, _) in _NUMBERS.items()}


class Array(BaseModel):
    """An array entry; `type` is `string` or the name of a number type."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: str
    values: list[str] | list[int] | list[float]


class Vocabulary(BaseModel):
    """The entries of a GGUF header that make a vocabulary, under their names in the file."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    metadata: dict[str, bool | int | float | str]
    arrays: dict[str, Array]


def vocabulary_of(gguf: GGUF) -> dict[str, Any]:
    """The `Vocabulary` of a file, ready for JSON. Bytes that are no UTF-8 become surrogates."""
    arrays: dict[str, Any] = {}
    for key, array in gguf.arrays.items():
        if not key.startswith(_PREFIX):
            continue
        if array.kind == STRING:
            strings = [s.decode("utf-8", "surrogateescape") for s in gguf.strings(key)]
            arrays[key] = {"type": "string", "values": strings}
        elif array.kind in _NAMES:
            numbers = gguf.numbers(key).tolist()
            arrays[key] = {"type": _NAMES[array.kind], "values": numbers}
    wanted = {k: v for k, v in gguf.metadata.items() if k.startswith(_PREFIX) or k in _GENERAL}
    return {"metadata": wanted, "arrays": arrays}


def write_vocabulary(path: Path, vocabulary: Vocabulary) -> None:
    """A GGUF file of `vocabulary` alone. Raises ModelFileError where that cannot be written."""
    entries = [_entry(key, value) for key, value in vocabulary.metadata.items()]
    entries += [_array_entry(key, array) for key, array in vocabulary.arrays.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(header(0, entries))
    new.replace(path)


def _entry(key: str, value: Value) -> bytes:
    try:
        return entry(key, value)
    except (struct.error, OverflowError) as error:
        raise ModelFileError(f"the vocabulary's {shown(key)} is invalid: {error}") from None


def _array_entry(key: str, array: Array) -> bytes:
    values = array.values
    if array.type == "string":
        data = b"".join(string(str(value)) for value in values)
        return array_entry(key, STRING, len(values), data)
    if array.type not in _NUMBERS:
        raise ModelFileError(
            f"the vocabulary's {shown(key)} has the unknown type {shown(array.type)}"
        )
    kind, letter = _NUMBERS[array.type]
    try:
        data = struct.pack(f"<{len(values)}{letter}", *values)
    except struct.error as error:
        raise ModelFileError(f"the vocabulary's {shown(key)} is invalid: {error}") from None
    return array_entry(key, kind, len(values), data)
