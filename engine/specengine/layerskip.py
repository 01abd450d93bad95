"""A model's first layers as a model of their own: self-speculation by early exit.

LayerSkip (Elhoushi et al. 2024) drafts with the target's first layers, its final norm and its head.
llama.cpp runs whole graphs only, so the part is written as a GGUF file, and drafts like any other
draft model. Its tokens stand often only where the checkpoint was trained for early exit.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specengine.errors import ModelFileError
from specengine.gguf import GGUF, read_gguf

if TYPE_CHECKING:
    from gguf import GGUFReader, GGUFWriter

_LAYER = re.compile(r"blk\.(\d+)\.")
_OWN_FIELDS = "GGUF."  # what the reader makes of the file's first bytes


def write_first_layers(source: Path, n_layers: int, output: Path) -> GGUF:
    """Write the first `n_layers` layers of `source`, whatever its quantization, and read it back.

    Weights are copied as they are, from a memory map. `output` appears when it is complete. Raises
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
        raise ModelFileError(f"{model.path} is not one stack of layers that could be cut")
    if not 1 <= n_layers < model.n_layer:
        raise ModelFileError(
            f"{model.path.name} has {model.n_layer} layers: keep from 1 to {model.n_layer - 1}"
        )


def _write(model: GGUF, n_layers: int, path: Path) -> None:
    from gguf import GGUFReader, GGUFWriter

    reader = GGUFReader(model.path)
    writer = GGUFWriter(path, model.architecture)
    try:
        writer.data_alignment = reader.alignment
        _copy_metadata(reader, writer, model, n_layers)
        for tensor in reader.tensors:
            layer = _layer_of(tensor.name)
            if layer is None or layer < n_layers:
                shape, kind = tensor.data.shape, tensor.tensor_type
                writer.add_tensor(tensor.name, tensor.data, raw_shape=shape, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _copy_metadata(reader: GGUFReader, writer: GGUFWriter, model: GGUF, n_layers: int) -> None:
    prefix = f"{model.architecture}."
    changed: dict[str, Any] = {
        "general.name": f"{model.name}, first {n_layers} layers",
        f"{prefix}block_count": n_layers,
        f"{prefix}nextn_predict_layers": 0,  # they came last
    }
    for name, field in reader.fields.items():
        if name.startswith(_OWN_FIELDS) or name == "general.architecture":
            continue
        value = changed.get(name, field.contents())
        if isinstance(value, list):
            if name.startswith(prefix) and len(value) == model.n_layer:
                value = value[:n_layers]  # one for each layer
            if value:
                writer.add_key_value(name, value, field.types[0], sub_type=field.types[-1])
        else:
            writer.add_key_value(name, value, field.types[0])


def _layer_of(tensor: str) -> int | None:
    match = _LAYER.match(tensor)
    return int(match[1]) if match else None
