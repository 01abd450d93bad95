"""Vocabularies that llama.cpp does not survive are found in the header."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from specengine.core.errors import ModelFileError
from specengine.files.fatal_vocabulary import fatal_vocabulary
from specengine.files.gguf import read_gguf
from specengine.files.language_model import read_language_model, read_vocabulary
from support.gguf_files import write_gguf


@pytest.mark.parametrize(
    ("tokens", "cause"),
    [
        (["a", "b", "", "c", ""], None),
        (["a", "b", "a"], "its tokens 0 and 2 are both 'a'"),
        (["a", "b\0c", "b\0d"], "its tokens 1 and 2 are both 'b'"),
        (["[EMPTY_1]", ""], "its tokens 0 and 1 are both '[EMPTY_1]'"),
        (["a" * 999, "b", "a" * 999], f"its tokens 0 and 2 are both '{'a' * 80}…'"),
    ],
)
def test_tokens_differ_as_llama_cpp_reads_them(
    tmp_path: Path, tokens: Sequence[str], cause: str | None
) -> None:
    path = write_gguf(tmp_path / "model.gguf", tokens=tokens)
    assert fatal_vocabulary(read_gguf(path)) == cause
    for read in (read_language_model, read_vocabulary):
        if cause is None:
            read(path)
        else:
            with pytest.raises(ModelFileError, match=r"damaged: its tokens .*; get it again"):
                read(path)
