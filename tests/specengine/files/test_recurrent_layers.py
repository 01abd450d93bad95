"""Tensors of recurrent layers that llama.cpp would not miss are missed in the header."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from specengine.core.errors import ModelFileError
from specengine.files.gguf import Tensor, read_gguf
from specengine.files.language_model import read_language_model
from specengine.files.recurrent_layers import missing_beside_recurrence
from support.gguf_files import write_gguf
from support.mtp_models import write_qwen35

MARK = "ssm_conv1d.weight"
SPLIT = ("attn_qkv.weight", "attn_gate.weight")


@pytest.mark.parametrize(
    ("architecture", "parts", "missing"),
    [
        ("qwen35", [MARK, *SPLIT], None),
        ("qwen35", [MARK, SPLIT[1]], "attn_qkv.weight"),
        ("qwen35", [MARK, SPLIT[0]], "attn_gate.weight"),
        ("qwen35", ["attn_q.weight"], None),
        ("qwen35moe", [MARK, "ssm_in.weight"], "attn_qkv.weight"),
        ("qwen3next", [MARK, "ssm_in.weight"], None),
        ("qwen3next", [MARK, SPLIT[0]], "attn_gate.weight"),
        ("granitehybrid", [MARK], "ssm_conv1d.bias"),
        ("nemotron_h", [MARK, "ssm_conv1d.bias"], None),
        ("mamba", [MARK], None),
    ],
)
def test_each_is_named(
    tmp_path: Path, architecture: str, parts: Sequence[str], missing: str | None
) -> None:
    model = read_gguf(write_gguf(tmp_path / "model.gguf", architecture=architecture))
    tensors = tuple(Tensor(f"blk.11.{part}", (1,), "F32", 0, 4) for part in parts)
    found = missing_beside_recurrence(replace(model, tensors=tensors))
    assert found == (f"blk.11.{missing}" if missing else None)


@pytest.mark.parametrize("part", SPLIT)
def test_no_model_without_one_is_read_as_a_language_model(tmp_path: Path, part: str) -> None:
    path = write_qwen35(tmp_path / "model.gguf", [], leave_out=[f"blk.0.{part}"])
    with pytest.raises(ModelFileError, match=rf"damaged: it lacks blk\.0\.{part}; get it again"):
        read_language_model(path)
