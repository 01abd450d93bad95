"""A model's first layers as a model of their own: self-speculation by early exit.

LayerSkip (Elhoushi et al. 2024) drafts with the target's first layers, its final norm and its head.
llama.cpp runs whole graphs only, so the part is written as a GGUF file, and drafts like any other
draft model. Its tokens stand often only where the checkpoint was trained for early exit.
"""

from __future__ import annotations

import re
import struct
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from specengine.core.errors import ModelFileError
from specengine.files.gguf import GGUF, Tensor, Value, read_gguf
from specengine.files.gguf_bytes import array_entry, entry, header, string
from specengine.files.gguf_types import TENSOR_TYPES
from specengine.files.shown import shown

_LAYER = re.compile(r"blk\.(\d+)\.")
_TYPES = {each.name: number for number, each in TENSOR_TYPES.items()}
_CHUNK = 1 << 24


def write_first_layers(source: Path, n_layers: int, output: Path) -> GGUF:
    """Write the first `n_layers` layers of `source`, whatever its quantization, and read it back.

    Weights are copied as they are. `output` appears when it is complete. Raises
    ModelFileError for a model that is no single stack of layers or has no more than `n_layers`,
    and where the file cannot be written.
    """
    model = read_gguf(source)
    _check(model, n_layers)
    unfinished = output.with_name(output.name + ".part")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        _write(model, n_layers, unfinished)
        unfinished.replace(output)
    except OSError as error:
        raise ModelFileError(f"{output} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return read_gguf(output)


def _check(model: GGUF, n_layers: int) -> None:
    layers = {_layer_of(tensor.name) for tensor in model.tensors} - {None}
    if model.kind != "model" or layers != set(range(model.n_layer)) or not layers:
        raise ModelFileError(f"{model.path} cannot be shortened: it is not one stack of layers")
    for tensor in model.tensors:
        _size(tensor)
    if not 1 <= n_layers < model.n_layer:
        raise ModelFileError(
            f"{model.path.name} has {model.n_layer} layers: keep from 1 to {model.n_layer - 1}"
        )


def _write(model: GGUF, n_layers: int, path: Path) -> None:
    layers = {tensor: _layer_of(tensor.name) for tensor in model.tensors}
    kept = [tensor for tensor, layer in layers.items() if layer is None or layer < n_layers]
    with model.path.open("rb") as source, path.open("wb") as file:
        file.write(header(len(kept), _metadata(model, n_layers, source)))
        offset = 0
        for tensor in kept:
            file.write(_table_row(tensor, offset))
            offset += _aligned(_size(tensor), model.alignment)
        file.write(bytes(-file.tell() % model.alignment))
        for tensor in kept:
            source.seek(model.data_start + tensor.offset)
            left = _size(tensor)
            while left:
                left -= file.write(source.read(min(left, _CHUNK)))
            file.write(bytes(-file.tell() % model.alignment))


def _metadata(model: GGUF, n_layers: int, source: BinaryIO) -> list[bytes]:
    """All entries byte for byte, but those that count layers and the arrays with one value each."""
    prefix = f"{model.architecture}."
    changed: dict[str, Value] = {
        "general.name": f"{model.name}, first {n_layers} layers",
        f"{prefix}block_count": n_layers,
        f"{prefix}nextn_predict_layers": 0,  # they came last
    }
    entries = []
    for key, (start, end) in model.spans.items():
        array = model.arrays.get(key)
        if key in changed:
            entries.append(entry(key, changed[key]))
        elif key.startswith(prefix) and array and len(model.numbers(key)) == model.n_layer:
            values = model.numbers(key)[:n_layers]
            entries.append(array_entry(key, array.kind, n_layers, values.tobytes()))
        else:
            source.seek(start)
            entries.append(source.read(end - start))
    return entries


def _table_row(tensor: Tensor, offset: int) -> bytes:
    shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
    return string(tensor.name) + shape + struct.pack("<IQ", _TYPES[tensor.type_name], offset)


def _size(tensor: Tensor) -> int:
    if tensor.nbytes is None:
        raise ModelFileError(
            f"{shown(tensor.name)} is of {tensor.type_name}, which specchat does not know"
        )
    return tensor.nbytes


def _aligned(size: int, alignment: int) -> int:
    return size + -size % alignment


def _layer_of(tensor: str) -> int | None:
    match = _LAYER.match(tensor)
    return int(match[1]) if match else None
