"""The GGUF header reader: what it reads, what it refuses and why, and that nothing crashes it."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGUFReader, GGUFWriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specengine.core.errors import ModelFileError
from specengine.files.gguf import GGUF, read_gguf
from specengine.files.gguf_types import TENSOR_TYPES
from support.gguf_files import WORDS, write_gguf


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "small.gguf")


def refusal(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        read_gguf(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


# --- reading ---


def test_hyperparameters(small: Path) -> None:
    gguf = read_gguf(small)
    assert gguf.architecture == "llama"
    assert gguf.name == "Small Test"
    assert gguf.quantization == "Q4_K_M"
    assert (gguf.n_ctx_train, gguf.n_layer, gguf.n_embd) == (2048, 4, 64)
    assert gguf.n_vocab == len(WORDS)
    assert gguf.n_params == 3 * 8 * 64
    assert gguf.chat_template == "{{ messages }}"
    assert gguf.per_layer("attention.head_count_kv", 0) == [2, 2, 2, 2]
    assert (gguf.token_id("bos"), gguf.token_id("eos"), gguf.token_id("eot")) == (0, 1, None)


def test_vocabulary_is_read_on_request(small: Path) -> None:
    gguf = read_gguf(small)
    assert gguf.tokens() == [word.encode() for word in WORDS]
    assert gguf.token_types()[:3].tolist() == [3, 3, 1]
    assert gguf.strings("tokenizer.ggml.merges") == [b"w o", b"wo r"]
    assert gguf.strings("no.such.array") == []
    assert gguf.numbers("no.such.array").tolist() == []


def test_a_hyperparameter_can_differ_from_layer_to_layer(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "a.gguf", "openelm")
    writer.add_array("openelm.attention.head_count_kv", [3, 4, 5])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert read_gguf(tmp_path / "a.gguf").per_layer("attention.head_count_kv", 0) == [3, 4, 5]


def test_fingerprints_tell_arrays_of_other_content_apart(tmp_path: Path) -> None:
    same = [read_gguf(write_gguf(tmp_path / f"{n}.gguf")) for n in "ab"]
    other = read_gguf(write_gguf(tmp_path / "c.gguf", tokens=[*WORDS[:-1], "changed"]))
    key = "tokenizer.ggml.tokens"
    assert same[0].fingerprint(key) == same[1].fingerprint(key) != other.fingerprint(key)
    assert same[0].fingerprint("no.such.array") is None


def test_a_real_model_agrees_with_the_reference_reader(tiny_model: Path) -> None:
    gguf, reference = read_gguf(tiny_model), GGUFReader(tiny_model)
    for key, field in reference.fields.items():
        if key in gguf.metadata:
            assert gguf.metadata[key] == field.contents()
    tokens = reference.fields["tokenizer.ggml.tokens"].contents()
    assert [token.decode() for token in gguf.tokens()] == tokens
    assert [(t.name, t.nbytes) for t in gguf.tensors] == [
        (t.name, t.n_bytes) for t in reference.tensors
    ]
    assert gguf.quantization == "Q4_1"
    assert gguf.n_params == 134_515_008


def test_tensor_types_have_the_sizes_of_the_reference_package() -> None:
    reference = {t.value: (t.name, *sizes) for t, sizes in GGML_QUANT_SIZES.items()}
    for number, known in TENSOR_TYPES.items():
        if number in reference:
            assert tuple(known) == reference[number]


def test_skipping_a_large_vocabulary_builds_no_objects(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "large.gguf", tokens=[f"token{n}" for n in range(150_000)])
    tracemalloc.start()
    try:
        read_gguf(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200_000


# --- refusing ---


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "empty"),
        (bytes(600), "filled with zeros"),
        (b"<!DOCTYPE html>\n<html><head>", "a web page"),
        (b"\n  <html lang='en'>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n", "Git LFS pointer"),
        (b"tjgg\x03\0\0\0" + bytes(64), "old GGML file"),
        (b"lmgg" + bytes(64), "old GGML file"),
        (b"PK\x03\x04" + bytes(64), "another format"),
        (struct.pack("<Q", 80) + b'{"__metadata__":{}}' + bytes(64), "another format"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(64), "big-endian"),
        (b"GGUF" + struct.pack("<I", 1) + bytes(64), "version 1"),
        (b"GGUF" + struct.pack("<I", 9) + bytes(64), "version 9"),
        (b"GG", "not a GGUF file"),
        (b"GGUF\x03\0\0\0", "truncated"),
        (b"just some text", "not a GGUF file"),
    ],
)
def test_other_files_are_refused_by_what_they_are(
    tmp_path: Path, content: bytes, cause: str
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    assert cause in refusal(path)


def test_a_folder_and_a_missing_file(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path)
    assert "No such file" in refusal(tmp_path / "missing.gguf")


def test_a_file_that_lacks_its_last_byte_is_truncated(small: Path, tmp_path: Path) -> None:
    whole = small.read_bytes()
    last = read_gguf(small).tensors[-1]
    assert last.nbytes == 8 * 64 * 2
    data_end = len(whole) - (-last.nbytes % 32)
    (tmp_path / "cut.gguf").write_bytes(whole[: data_end - 1])
    assert f"reach to byte {data_end}, it has {data_end - 1}" in refusal(tmp_path / "cut.gguf")
    (tmp_path / "whole.gguf").write_bytes(whole[:data_end])
    assert read_gguf(tmp_path / "whole.gguf").n_layer == 4


def test_a_part_of_a_split_model_is_refused(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a-00001-of-00003.gguf", extra={"split.count": 3})
    assert "one of 3 parts of a split model" in refusal(path)


def test_a_tensor_type_of_the_future_is_left_to_llama_cpp(tmp_path: Path, small: Path) -> None:
    content = bytearray(small.read_bytes())
    at = content.index(b"blk.2.weight") + len("blk.2.weight") + 4 + 2 * 8
    assert content[at : at + 4] == struct.pack("<I", 1)
    content[at : at + 4] = struct.pack("<I", 99)
    (tmp_path / "new.gguf").write_bytes(content)
    tensor = read_gguf(tmp_path / "new.gguf").tensors[2]
    assert (tensor.type_name, tensor.nbytes) == ("type 99", None)


def entry(key: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value


@pytest.mark.parametrize(
    ("n_tensors", "n_entries", "rest", "cause"),
    [
        (1 << 20, 0, b"", "1048576 tensors and 0 metadata entries"),
        (0, 1 << 20, b"", "0 tensors and 1048576 metadata entries"),
        (0, 1, entry("a", 8, struct.pack("<Q", 1 << 25)), "a text of 33554432 bytes"),
        (0, 1, entry("a", 9, struct.pack("<IQ", 8, 1 << 23)), "a list of 8388608 texts"),
        (0, 1, entry("a", 9, struct.pack("<IQ", 9, 1)), "an array of the unknown type 9"),
        (
            0,
            1,
            entry("a", 9, struct.pack("<IQ", 4, 1 << 30)),
            "continues beyond its 100000000 bytes",
        ),
        (0, 1, entry("a", 13, b""), "'a' has the unknown type 13"),
        (1, 0, struct.pack("<QI", 0, 5), "has 5 dimensions"),
        (0, 1, entry("general.alignment", 4, struct.pack("<I", 0)), "an alignment of 0"),
        (0, 1, entry("general.alignment", 8, struct.pack("<Q", 0)), "an alignment of "),
    ],
)
def test_lengths_that_no_model_has_are_refused_at_once(
    tmp_path: Path, n_tensors: int, n_entries: int, rest: bytes, cause: str
) -> None:
    """The file is long enough (and full of zeros) to have the contents that it promises."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, n_tensors, n_entries) + rest)
    with path.open("r+b") as file:
        file.truncate(100_000_000)
    assert cause in refusal(path)


# --- never crashing ---

HUGE = [2**16, 2**24 + 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1]


def read_or_refuse(path: Path) -> GGUF | None:
    """Everything a caller may ask of a file, with a bound on the memory that takes."""
    tracemalloc.start()
    try:
        gguf = read_gguf(path)
        for key in gguf.arrays:
            gguf.strings(key)
            gguf.numbers(key)
            gguf.fingerprint(key)
        gguf.per_layer("attention.head_count_kv", 0)
        assert isinstance(gguf.token_types(), np.ndarray)
        assert isinstance((gguf.name, gguf.kind, gguf.quantization, gguf.chat_template), tuple)
        assert gguf.n_params >= 0
        return gguf
    except ModelFileError:
        return None
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4_000_000


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(min_value=0))
def test_a_file_cut_anywhere_is_refused(small: Path, tmp_path: Path, cut: int) -> None:
    whole = small.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole[: cut % (len(whole) - 1024)])
    assert read_or_refuse(path) is None


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    at=st.integers(min_value=8, max_value=2400),
    value=st.one_of(
        st.binary(min_size=1, max_size=12),
        st.sampled_from(HUGE).map(lambda n: n.to_bytes(8, "little")),
    ),
)
def test_damaged_bytes_anywhere_in_the_header_are_read_or_refused(
    small: Path, tmp_path: Path, at: int, value: bytes
) -> None:
    content = bytearray(small.read_bytes())
    content[at : at + len(value)] = value
    path = tmp_path / "damaged.gguf"
    path.write_bytes(content)
    read_or_refuse(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rest=st.binary(max_size=300),
    n_tensors=st.sampled_from([0, 1, *HUGE]),
    n_entries=st.sampled_from([0, 1, *HUGE]),
)
def test_arbitrary_bytes_after_the_magic_are_read_or_refused(
    tmp_path: Path, rest: bytes, n_tensors: int, n_entries: int
) -> None:
    path = tmp_path / "any.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, n_tensors, n_entries) + rest)
    read_or_refuse(path)
