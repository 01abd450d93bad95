"""What llama.cpp would not survive is found in the header."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specengine.errors import ModelFileError
from specengine.model_files.fatal_settings import fatal_setting
from specengine.model_files.gguf import read_gguf, read_language_model
from support.gguf_files import write_gguf


@pytest.mark.parametrize(
    ("key", "value", "cause"),
    [
        ("block_count", 0, "it has 0 layers"),
        ("block_count", 513, "it has 513 layers"),
        ("nextn_predict_layers", 5, "5 of its 4 layers are heads"),
        ("expert_used_count", 2, "it uses 2 of 0 experts"),
        ("expert_count", 1025, "it uses 0 of 1025 experts"),
        ("expert_count", 2, "it uses 0 of 2 experts"),
        ("expert_group_count", 2, "it uses 0 of 2 groups of its 0 experts"),
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


@pytest.mark.parametrize(
    ("groups", "used_groups", "fatal"),
    [
        (0, 0, False),
        (1, 0, False),
        (4, 2, False),
        (4, 0, True),
        (4, 4, True),
        (3, 2, True),
        (8, 2, True),
    ],
)
def test_experts_come_in_groups_of_equal_size(
    tmp_path: Path, groups: int, used_groups: int, fatal: bool
) -> None:
    numbers = {"expert_count": 8, "expert_used_count": 2}
    numbers |= {"expert_group_count": groups, "expert_group_used_count": used_groups}
    extra = {f"llama.{key}": value for key, value in numbers.items()}
    found = fatal_setting(read_gguf(write_gguf(tmp_path / "model.gguf", extra=extra)))
    assert found == (
        f"it uses {used_groups} of {groups} groups of its 8 experts" if fatal else None
    )


def test_no_model_with_one_is_read_as_a_language_model(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", extra={"llama.expert_used_count": 2})
    with pytest.raises(ModelFileError, match=r"is damaged: it uses 2 of 0 experts; get it again"):
        read_language_model(path)
