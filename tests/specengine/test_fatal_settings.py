"""What llama.cpp would not survive is found in the header."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specengine.errors import ModelFileError
from specengine.fatal_settings import fatal_setting
from specengine.gguf import read_gguf, read_language_model
from support.gguf_files import write_gguf


@pytest.mark.parametrize(
    ("key", "value", "cause"),
    [
        ("block_count", 0, "it has 0 layers"),
        ("block_count", 513, "it has 513 layers"),
        ("nextn_predict_layers", 5, "5 of its 4 layers are heads"),
        ("expert_used_count", 2, "it uses 2 of 0 experts"),
        ("expert_count", 1025, "it uses 0 of 1025 experts"),
        ("rope.scaling.type", "dynamic", "llama.rope.scaling.type is dynamic"),
        ("attention.layer_norm_rms_epsilon", -1.0, "layer_norm_rms_epsilon is -1.0"),
    ],
)
def test_each_is_named(tmp_path: Path, key: str, value: float | str, cause: str) -> None:
    model = read_gguf(write_gguf(tmp_path / "model.gguf"))
    assert fatal_setting(model) is None
    found = fatal_setting(replace(model, metadata={**model.metadata, f"llama.{key}": value}))
    assert found is not None
    assert cause in found


def test_no_model_with_one_is_read_as_a_language_model(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", extra={"llama.expert_used_count": 2})
    with pytest.raises(ModelFileError, match=r"is damaged: it uses 2 of 0 experts; get it again"):
        read_language_model(path)
