"""Makes a depth-padded copy of a GGUF model: the same function, at the cost of a deeper model.

    python bench/pad_depth.py MODEL.gguf TIMES [OUTPUT.gguf]

Behind every layer come TIMES - 1 copies of it whose output projections are zero, so that they add
nothing to what flows past them: each text gets the logits that it got before, and each pass costs
as much as one of a model TIMES as deep. (Zero bytes are the number zero in every quantization that
llama.cpp knows.) That gives a target of realistic cost, with real acceptance of a real drafter, on
a machine that is too small for a real one. The copy says that it is padded, in its file name and
in `general.name`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter, ReaderTensor

_LAYER = re.compile(r"blk\.(\d+)\.(.+)")
_OUTPUT = re.compile(r"(attn_output|ffn_down\w*)\.(weight|bias)")
"""The tensors through which a layer adds to its input."""
# Written by the writer itself, or changed; the copy has the alignment that files have by default.
_NOT_COPIED = ("general.architecture", "general.name", "general.alignment")


class PaddingError(Exception):
    """The model cannot be padded; one line that says why."""


def pad_depth(model: Path, times: int, output: Path | None = None) -> Path:
    """Write the padded copy (by default beside `model`) and return its path.

    Raises PaddingError for a model whose layers add to their input through other tensors too, and
    where `output` is `model`.
    """
    if times < 2:
        raise PaddingError(f"a model padded {times} times is not deeper")
    output = output or model.with_name(f"{model.stem}-padded-x{times}.gguf")
    if output.exists() and output.samefile(model):
        raise PaddingError("the copy would take the place of the model")
    reader = GGUFReader(model)
    architecture = str(_value(reader, "general.architecture"))
    depth = int(_value(reader, f"{architecture}.block_count"))
    _check_layers(reader, depth)
    writer = GGUFWriter(output, architecture)
    _copy_metadata(reader, writer, architecture, depth, times)
    tensors = list(_padded(reader, times))
    for name, tensor, _ in tensors:
        data = tensor.data
        writer.add_tensor_info(name, data.shape, data.dtype, data.nbytes, tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for _, tensor, silent in tensors:
        writer.write_tensor_data(np.zeros_like(tensor.data) if silent else tensor.data)
    writer.close()
    return output


def _padded(reader: GGUFReader, times: int) -> Iterator[tuple[str, ReaderTensor, bool]]:
    """Name, content, and whether it is to be zero, of each tensor of the copy."""
    for tensor in reader.tensors:
        match = _LAYER.fullmatch(tensor.name)
        if match is None:
            yield tensor.name, tensor, False
            continue
        layer, part = int(match[1]), match[2]
        for copy in range(times):
            silent = copy > 0 and _OUTPUT.fullmatch(part) is not None
            yield f"blk.{layer * times + copy}.{part}", tensor, silent


def _check_layers(reader: GGUFReader, depth: int) -> None:
    parts: dict[int, set[str]] = {layer: set() for layer in range(depth)}
    for tensor in reader.tensors:
        if match := _LAYER.fullmatch(tensor.name):
            parts.setdefault(int(match[1]), set()).add(match[2])
    for layer, names in parts.items():
        outputs = {name.partition(".")[0] for name in names if _OUTPUT.fullmatch(name)}
        if len(outputs) < 2 or "ssm_out.weight" in names:
            raise PaddingError(f"layer {layer} is not of attention and a feed-forward network")


def _copy_metadata(
    reader: GGUFReader, writer: GGUFWriter, architecture: str, depth: int, times: int
) -> None:
    changed = {f"{architecture}.block_count": depth * times}
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in _NOT_COPIED:
            continue
        kind = field.types[0]
        element = field.types[-1] if kind == GGUFValueType.ARRAY else None
        value = changed.get(name, field.contents())
        if name.startswith(f"{architecture}.") and isinstance(value, list) and len(value) == depth:
            value = [x for x in value for _ in range(times)]  # one for each layer
        writer.add_key_value(name, value, kind, sub_type=element)
    name = _value(reader, "general.name") or architecture
    writer.add_name(f"{name} (depth-padded x{times})")


def _value(reader: GGUFReader, key: str) -> Any:
    field = reader.get_field(key)
    return None if field is None else field.contents()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("times", type=int)
    parser.add_argument("output", type=Path, nargs="?")
    arguments = parser.parse_args()
    try:
        print(pad_depth(arguments.model, arguments.times, arguments.output))
    except (PaddingError, OSError, ValueError) as error:
        print(f"{arguments.model}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
