"""Reads the header of a GGUF file: metadata, tensor table, vocabulary; no weights, no llama.cpp.

Format: `docs/gguf.md` of the ggml project, versions 2 and 3. Arrays are skipped by their lengths
and read only when asked for, so that a vocabulary of 150,000 tokens costs a few hundredths of a
second. Every length is checked against the file before it is believed.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specengine.core.errors import ModelFileError
from specengine.files.gguf_types import FILE_TYPES, TENSOR_TYPES
from specengine.files.shown import shown

Value = int | float | bool | str

_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}

# Far above every real model, and low enough that a damaged length costs neither memory nor time.
# llama.cpp's own limits and names.
MAX_LAYERS = 512
_MAX_ENTRIES = 1 << 17
_MAX_STRINGS = 1 << 22
_MAX_STRING = 1 << 24
_MAX_DIMENSIONS = 4

_OLD_MAGICS = (b"lmgg", b"fmgg", b"tjgg", b"algg")
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Array:
    """Where the header keeps an array: `count` values of type number `kind` at [start, end)."""

    kind: int
    count: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor. `nbytes` is None where its type is newer than this program."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    offset: int
    nbytes: int | None


@dataclass(frozen=True)
class GGUF:
    """A file's header. Lengths are in tokens, layers or elements; sizes are in bytes."""

    path: Path
    file_size: int
    metadata: Mapping[str, Value]
    arrays: Mapping[str, Array]
    tensors: tuple[Tensor, ...]
    data_start: int = 0
    """Byte that the tensors' offsets count from."""
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """First byte and end of each entry of the metadata, arrays included."""

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", "unknown"))

    @property
    def name(self) -> str:
        return str(self.metadata.get("general.name", self.path.stem))

    @property
    def kind(self) -> str:
        """`model`, or what else a GGUF file can be: `adapter`, `mmproj`, `imatrix`."""
        untold = "mmproj" if self.architecture == "clip" else "model"  # older files do not say
        return str(self.metadata.get("general.type", untold))

    @property
    def embeds_texts(self) -> bool:
        """Whether every token sees all others. So it is in block heads, too, which do write."""
        causal = self.metadata.get(f"{self.architecture}.attention.causal")
        return causal is False and self.architecture != "dflash"

    @property
    def quantization(self) -> str:
        """As people call it: Q4_K_M, Q8_0, F16."""
        number = self.metadata.get("general.file_type")
        return FILE_TYPES.get(number, "unknown") if isinstance(number, int) else "unknown"

    @property
    def n_params(self) -> int:
        return sum(math.prod(tensor.shape) for tensor in self.tensors)

    @property
    def n_vocab(self) -> int:
        tokens = self.arrays.get("tokenizer.ggml.tokens")
        return tokens.count if tokens else self.number("vocab_size", 0)

    @property
    def n_ctx_train(self) -> int:
        return self.number("context_length", 0)

    @property
    def n_layer(self) -> int:
        return self.number("block_count", 0)

    @property
    def n_embd(self) -> int:
        return self.number("embedding_length", 0)

    @property
    def chat_template(self) -> str | None:
        template = self.metadata.get("tokenizer.chat_template")
        return template if isinstance(template, str) else None

    def number(self, key: str, default: int) -> int:
        """A hyperparameter of the architecture, such as `block_count`."""
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        return int(value) if isinstance(value, int) else default

    def per_layer(self, key: str, default: int) -> list[int]:
        """A hyperparameter that is one number for all layers, or an array with one for each."""
        array = self.arrays.get(f"{self.architecture}.{key}")
        if array is None or array.kind == _STRING:
            return [self.number(key, default)] * self.n_layer
        numbers = self.numbers(f"{self.architecture}.{key}")[:MAX_LAYERS]
        return [int(n) for n in numbers] if numbers.dtype.kind in "iu" else [default] * len(numbers)

    def token_id(self, role: str) -> int | None:
        """Id of a special token by its role: `bos`, `eos`, `eot`, `unknown`, `padding`."""
        value = self.metadata.get(f"tokenizer.ggml.{role}_token_id")
        return int(value) if isinstance(value, int) else None

    def tokens(self) -> list[bytes]:
        """The vocabulary's tokens as the file spells them, by id."""
        return self.strings("tokenizer.ggml.tokens")

    def token_types(self) -> NDArray[np.int32]:
        """1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; shape (n_vocab,)."""
        return self.numbers("tokenizer.ggml.token_type").astype(np.int32)

    def strings(self, key: str) -> list[bytes]:
        """An array of strings; empty where the file has none of this name."""
        array = self.arrays.get(key)
        if array is None or array.kind != _STRING:
            return []
        with _mapped(self.path) as buffer:
            result = []
            position = array.start
            for _ in range(array.count):
                (length,) = _LENGTH.unpack_from(buffer, position)
                position += 8 + length
                result.append(bytes(buffer[position - length : position]))
            return result

    def numbers(self, key: str) -> NDArray[np.generic]:
        """An array of numbers, shape (count,); empty where the file has none of this name."""
        array = self.arrays.get(key)
        if array is None or array.kind == _STRING:
            return np.empty(0, dtype=np.int32)
        with _mapped(self.path) as buffer:
            data = bytes(buffer[array.start : array.end])
        return np.frombuffer(data, dtype=np.dtype(_SCALARS[array.kind]).newbyteorder("<"))

    @property
    def alignment(self) -> int:
        """Offsets of tensors are multiples of it."""
        value = self.metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        return int(value)

    def values(self, tensor: Tensor, kind: np.dtype[Any]) -> NDArray[Any]:
        """The numbers of an unquantized tensor, of the type `kind`, flat: a copy."""
        start = self.data_start + tensor.offset
        with _mapped(self.path) as buffer:
            data = bytes(buffer[start : start + math.prod(tensor.shape) * kind.itemsize])
        return np.frombuffer(data, dtype=kind)

    def fingerprint(self, key: str) -> str | None:
        """Hex digest of an array, equal exactly for arrays of equal content."""
        array = self.arrays.get(key)
        if array is None:
            return None
        with _mapped(self.path) as buffer:
            return hashlib.blake2b(buffer[array.start : array.end], digest_size=16).hexdigest()


def read_gguf(path: Path) -> GGUF:
    """Read and check the header of `path`.

    Raises ModelFileError, naming the cause, for everything that cannot be a complete, loadable
    model file: missing, truncated, damaged, split, of an old format, or something else altogether.
    """
    try:
        if path.is_dir():
            raise ModelFileError(f"{path} is a folder, not a model file")
        with path.open("rb") as file:
            start = file.read(512)
            size = file.seek(0, 2)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    if cause := _not_gguf(start):
        raise ModelFileError(f"{path} is {cause}")
    try:
        with _mapped(path) as buffer:
            gguf = _parse(path, _Cursor(buffer), size)
    except _DamagedError as error:
        raise ModelFileError(f"{path} is damaged: {error}; get it again") from None
    except (struct.error, OverflowError):
        raise ModelFileError(
            f"{path} is truncated or damaged: its header continues beyond its {size} bytes; get "
            "it again"
        ) from None
    if cause := _too_many(gguf):
        raise ModelFileError(f"{path} is damaged: {cause}; get it again")
    if isinstance(parts := gguf.metadata.get("split.count"), int) and parts > 1:
        raise ModelFileError(
            f"{path} is one of {parts} parts of a split model: join them with "
            "llama-gguf-split --merge"
        )
    return gguf


def _too_many(gguf: GGUF) -> str | None:
    """Which number that lists are as long as is beyond every model's."""
    for count in (gguf.n_layer, gguf.number("nextn_predict_layers", 0)):
        if count > MAX_LAYERS:
            return f"it has {count} layers"
    return f"it has {gguf.n_vocab} tokens" if gguf.n_vocab > _MAX_STRINGS else None


def _not_gguf(start: bytes) -> str | None:
    """What a file that begins like this is instead of a GGUF file that can be read, or None."""
    if start[:4] == b"GGUF":
        version = int.from_bytes(start[4:8], "little")
        if version in _VERSIONS:
            return None
        if version & 0xFFFF == 0 and version:
            return "a big-endian GGUF file: get the little-endian one"
        return (
            f"a GGUF file of version {version}, but only versions 2 and 3 can be read: get a "
            "newer one"
        )
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not start:
        return "empty: get it again"
    if not start.strip(b"\0"):
        return "filled with zeros: its download has not finished"
    if text.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the model itself: run git lfs pull, or download the file"
    if text.startswith((b"<!doctype", b"<html", b"<head", b"<?xml")):
        return "a web page, not a model: the download link led to a page"
    if start[:4] in _OLD_MAGICS:
        return "an old GGML file, which llama.cpp no longer reads: get the model as GGUF"
    if start[:4] == b"PK\x03\x04" or start[8:10] == b'{"':
        return "a model of another format (PyTorch or safetensors): get it as GGUF"
    return "not a GGUF file"


class _DamagedError(Exception):
    """The header contradicts itself."""


class _Cursor:
    """A position in the header. Reading past the end raises struct.error or OverflowError."""

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self.position = 0

    def scalar(self, letter: str) -> int | float | bool:
        (value,) = struct.unpack_from(f"<{letter}", self._buffer, self.position)
        self.position += struct.calcsize(f"<{letter}")
        number: int | float | bool = value
        return number

    def integer(self, letter: str) -> int:
        return int(self.scalar(letter))

    def string(self) -> str:
        length = self.integer("Q")
        if length > _MAX_STRING:
            raise _DamagedError(f"a text of {length} bytes")
        start = self.position
        self.skip(length)
        return bytes(self._buffer[start : self.position]).decode(errors="replace")

    def skip(self, length: int) -> None:
        self.position += length
        if self.position > len(self._buffer):
            raise OverflowError

    def array(self) -> Array:
        """Step over an array without building its values."""
        kind, count = self.integer("I"), self.integer("Q")
        start = self.position
        if kind in _SCALARS:
            self.skip(count * struct.calcsize(f"<{_SCALARS[kind]}"))
        elif kind == _STRING:
            if count > _MAX_STRINGS:
                raise _DamagedError(f"a list of {count} texts")
            self.skip(self._length_of_strings(count))
        else:
            raise _DamagedError(f"an array of the unknown type {kind}")
        return Array(kind, count, start, self.position)

    def _length_of_strings(self, count: int) -> int:
        buffer, position, length_at = self._buffer, self.position, _LENGTH.unpack_from
        for _ in range(count):
            position += 8 + length_at(buffer, position)[0]
        return position - self.position


def _parse(path: Path, cursor: _Cursor, size: int) -> GGUF:
    cursor.skip(8)
    n_tensors, n_entries = cursor.integer("Q"), cursor.integer("Q")
    if max(n_tensors, n_entries) > _MAX_ENTRIES:
        raise _DamagedError(f"{n_tensors} tensors and {n_entries} metadata entries")
    metadata: dict[str, Value] = {}
    arrays: dict[str, Array] = {}
    spans: dict[str, tuple[int, int]] = {}
    for _ in range(n_entries):
        start = cursor.position
        key, kind = cursor.string(), cursor.integer("I")
        if kind == _ARRAY:
            arrays[key] = cursor.array()
        elif kind == _STRING:
            metadata[key] = cursor.string()
        elif kind in _SCALARS:
            metadata[key] = cursor.scalar(_SCALARS[kind])
        else:
            raise _DamagedError(f"{shown(key)} has the unknown type {kind}")
        spans[key] = (start, cursor.position)
    tensors = tuple(_tensor(cursor) for _ in range(n_tensors))
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise _DamagedError(f"an alignment of {alignment}")
    data_start = cursor.position + -cursor.position % alignment
    end = data_start + max((t.offset + (t.nbytes or 0) for t in tensors), default=0)
    if tensors and end > size:
        raise ModelFileError(
            f"{path} is truncated: its tensors reach to byte {end}, it has {size}; get it again"
        )
    return GGUF(path, size, metadata, arrays, tensors, data_start, spans)


def _tensor(cursor: _Cursor) -> Tensor:
    name = cursor.string()
    n_dimensions = cursor.integer("I")
    if n_dimensions > _MAX_DIMENSIONS:
        raise _DamagedError(f"tensor {shown(name)} has {n_dimensions} dimensions")
    shape = tuple(cursor.integer("Q") for _ in range(n_dimensions))
    number, offset = cursor.integer("I"), cursor.integer("Q")
    known = TENSOR_TYPES.get(number)
    if known is None:
        return Tensor(name, shape, f"type {number}", offset, None)
    return Tensor(name, shape, known.name, offset, math.prod(shape) // known.block * known.size)


@contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        yield view
