"""What a damaged file says of itself fits an error line, and moves no cursor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gguf import GGUFWriter
from hypothesis import given
from hypothesis import strategies as st

from specengine.core.errors import ModelFileError
from specengine.files.compatibility import compare_vocabularies
from specengine.files.fatal_settings import fatal_setting
from specengine.files.gguf import read_gguf
from specengine.files.language_model import read_language_model
from specengine.files.shown import shown
from support.gguf_files import write_gguf, write_out

LONG = "\x1b[2J\n" + "k" * 100_000


@given(st.text() | st.binary())
def test_whatever_is_shown_is_short_and_printable(text: str | bytes) -> None:
    assert len(shown(text)) <= 83
    assert shown(text).isprintable()


def test_short_texts_are_shown_as_they_are() -> None:
    assert shown("blk.0.attn_q.weight") == "'blk.0.attn_q.weight'"
    assert shown("a\nb\x1b") == "'a\\nb\\x1b'"


def check(line: str | None) -> None:
    assert line is not None
    assert len(line) < 500
    assert line.isprintable()


def test_damaged_keys_are_cut_in_every_line(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf")
    data = path.read_bytes()
    key, long = b"general.name", LONG.encode()
    at = data.index(key)
    wrong = len(long).to_bytes(8, "little") + long + (200).to_bytes(4, "little")
    path.write_bytes(data[: at - 8] + wrong + data[at + len(key) + 4 :])
    with pytest.raises(ModelFileError, match="has the unknown type 200") as refused:
        read_gguf(path)
    check(str(refused.value).replace(str(path), ""))


def test_damaged_names_of_tensors_are_cut_in_every_line(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf")
    data = path.read_bytes()
    name, long = b"blk.0.weight", LONG.encode()
    at = data.index(name)
    wrong = len(long).to_bytes(8, "little") + long + (200).to_bytes(4, "little")
    path.write_bytes(data[: at - 8] + wrong + data[at + len(name) + 4 :])
    with pytest.raises(ModelFileError, match="has 200 dimensions") as refused:
        read_gguf(path)
    check(str(refused.value).replace(str(path), ""))


def test_damaged_settings_are_cut_in_every_line(tmp_path: Path) -> None:
    model = read_gguf(write_gguf(tmp_path / "model.gguf"))
    for wrong in ({"llama.rope.scaling.type": LONG}, {f"{LONG}_epsilon": -1.0}):
        check(fatal_setting(replace(model, metadata={**model.metadata, **wrong})))
    other = replace(model, metadata={**model.metadata, "tokenizer.ggml.model": LONG})
    check(compare_vocabularies(model, other).cause)
    tokens = read_gguf(write_gguf(tmp_path / "other.gguf", tokens=[LONG, "b"]))
    check(compare_vocabularies(model, tokens).cause)


def test_a_damaged_kind_is_cut(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_string("general.type", LONG)
    with pytest.raises(ModelFileError) as refused:
        read_language_model(write_out(writer, tmp_path / "model.gguf"))
    check(str(refused.value).replace(str(tmp_path), ""))
