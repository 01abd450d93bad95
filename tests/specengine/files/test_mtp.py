"""Heads in a target's own file: found, and refused with the cause where they cannot run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specengine.core.errors import ModelFileError
from specengine.files.gguf import GGUF, read_gguf
from specengine.files.mtp import check_own_heads, n_heads
from support.gguf_files import write_gguf
from support.mtp_models import write_step35


@pytest.mark.parametrize("count", [1, 3])
def test_the_heads_of_a_file_are_counted(tmp_path: Path, count: int) -> None:
    model = read_gguf(write_step35(tmp_path / "model.gguf", count))
    assert n_heads(model) == count
    check_own_heads(model)


def test_a_model_without_heads_says_so(tmp_path: Path) -> None:
    model = read_gguf(write_gguf(tmp_path / "model.gguf"))
    assert n_heads(model) == 0
    with pytest.raises(ModelFileError, match=r"model.gguf has no heads for multi-token"):
        check_own_heads(model)


@pytest.mark.parametrize("tensor", ["blk.3.nextn.hnorm.weight", "blk.2.ffn_up.weight"])
def test_heads_that_were_left_out_of_the_file_are_missed(tmp_path: Path, tensor: str) -> None:
    path = write_step35(tmp_path / "model.gguf", 2, leave_out=[tensor])
    with pytest.raises(
        ModelFileError, match=rf"says that it has 2 heads .* but lacks {tensor}: get the"
    ):
        check_own_heads(read_gguf(path))


def renamed(model: GGUF, architecture: str, **numbers: Any) -> GGUF:
    """The same file as if of another architecture."""
    own = f"{model.architecture}."
    metadata = {
        key.replace(own, f"{architecture}."): value for key, value in model.metadata.items()
    }
    metadata["general.architecture"] = architecture
    return replace(model, metadata={**metadata, **numbers})


def test_limits_are_named(tmp_path: Path) -> None:
    one = read_gguf(write_step35(tmp_path / "one.gguf", 1))
    two = read_gguf(write_step35(tmp_path / "two.gguf", 2))
    check_own_heads(renamed(one, "qwen35"))
    with pytest.raises(ModelFileError, match=r"one head .* cannot use .* 'deepseek2'"):
        check_own_heads(renamed(one, "deepseek2"))
    with pytest.raises(
        ModelFileError, match=r"has 2 heads, but llama.cpp runs only one .* 'qwen35'"
    ):
        check_own_heads(renamed(two, "qwen35"))
    with pytest.raises(ModelFileError, match=r"lacks blk.2.attn_qkv.weight"):
        check_own_heads(renamed(one, "mimo2"))
    with pytest.raises(ModelFileError, match=r"shape that llama.cpp does not support"):
        check_own_heads(renamed(one, "qwen35", **{"qwen35.attention.value_length": 8}))
    with pytest.raises(ModelFileError, match=r"shape that llama.cpp does not support"):
        check_own_heads(replace(one, metadata={**one.metadata, "step35.embedding_length_out": 64}))
