"""What llama.cpp would not survive is found in the header."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gguf import GGUFWriter

from specengine.core.errors import ModelFileError
from specengine.files.fatal_settings import fatal_setting
from specengine.files.gguf import read_gguf
from specengine.files.language_model import read_language_model
from support.gguf_files import write_gguf, write_out


@pytest.mark.parametrize(
    ("key", "value", "cause"),
    [
        ("block_count", 0, "it has 0 layers"),
        ("block_count", 513, "it has 513 layers"),
        ("nextn_predict_layers", 5, "5 of its 4 layers are heads"),
        ("nextn_predict_layers", 4, "4 of its 4 layers are heads"),
        ("nextn_predict_layers", -1, "-1 of its 4 layers are heads"),
        ("context_length", 0, "it was trained for a context of 0 tokens"),
        ("context_length", 2**32 - 1, "it was trained for a context of 4294967295 tokens"),
        ("expert_used_count", 2, "it uses 2 of 0 experts"),
        ("expert_count", 1025, "it uses 0 of 1025 experts"),
        ("expert_count", 2, "it uses 0 of 2 experts"),
        ("expert_group_count", 2, "it uses 0 of 2 groups of its 0 experts"),
        ("rope.dimension_count", 0, "its rope.dimension_count is 0"),
        ("rope.dimension_count", 7, "its rope.dimension_count is 7"),
        ("rope.scaling.type", "dynamic", "its rope.scaling.type is 'dynamic'"),
        ("attention.layer_norm_rms_epsilon", -1.0, "layer_norm_rms_epsilon' is -1.0"),
    ],
)
def test_each_is_named(tmp_path: Path, key: str, value: float | str, cause: str) -> None:
    model = read_gguf(write_gguf(tmp_path / "model.gguf"))
    assert fatal_setting(model) is None
    found = fatal_setting(replace(model, metadata={**model.metadata, f"llama.{key}": value}))
    assert found is not None
    assert cause in found


@pytest.mark.parametrize(
    ("architecture", "settings", "cause"),
    [
        (
            "granitehybrid",
            {"ssm.inner_size": 127},
            "its ssm.inner_size is 127, with embeddings of 64",
        ),
        ("granitehybrid", {"ssm.inner_size": 128}, None),
        ("jamba", {}, "its ssm.inner_size is 0, with embeddings of 64"),
        ("deepseek2", {"attention.key_length": 8}, "its keys have 8 numbers, 8 of them rotated"),
        (
            "deepseek2",
            {"attention.key_length": 40, "rope.dimension_count": 8, "attention.key_length_mla": 8},
            "its keys have 8 numbers, 8 of them rotated",
        ),
        ("deepseek2", {"attention.key_length": 40, "rope.dimension_count": 8}, None),
        ("glm4moe", {}, "it has 0 experts"),
        ("glm4moe", {"expert_count": 4, "expert_used_count": 2}, None),
    ],
)
def test_what_an_architecture_does_not_survive_is_named(
    tmp_path: Path, architecture: str, settings: dict[str, int], cause: str | None
) -> None:
    extra = {f"{architecture}.{key}": value for key, value in settings.items()}
    path = write_gguf(tmp_path / "model.gguf", architecture=architecture, extra=extra)
    found = fatal_setting(read_gguf(path))
    assert found == cause if cause is None else found is not None and cause in found


@pytest.mark.parametrize("key", ["block_count", "nextn_predict_layers"])
def test_a_count_beyond_every_models_is_refused_before_anything_is_made_of_it(
    tmp_path: Path, key: str
) -> None:
    writer = GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_uint32(f"llama.{key}", 1_390_000_000)
    with pytest.raises(ModelFileError, match="damaged: it has 1390000000 layers; get it again"):
        read_gguf(write_out(writer, tmp_path / "model.gguf"))


def test_a_list_for_each_layer_is_no_longer_than_the_layers_can_be(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_block_count(2)
    writer.add_head_count([4] * 5000)
    writer.add_array("llama.feed_forward_length", [float("nan")] * 2)
    model = read_gguf(write_out(writer, tmp_path / "model.gguf"))
    assert len(model.per_layer("attention.head_count", 1)) == 512
    assert model.per_layer("feed_forward_length", 1) == [1, 1]


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
