"""Feed-forward tensors that llama.cpp would not miss are missed in the header."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from specengine.core.errors import ModelFileError
from specengine.files.feed_forward import missing_feed_forward
from specengine.files.gguf import GGUF, Tensor, read_gguf
from specengine.files.language_model import read_language_model
from support.gguf_files import write_gguf
from support.mtp_models import N_TRUNK, write_step35

DENSE = ("ffn_gate", "ffn_up", "ffn_down")
EXPERTS = ("ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
JOINED = ("ffn_gate_inp", "ffn_gate_up_exps", "ffn_down_exps")


@pytest.mark.parametrize("part", DENSE)
def test_a_model_that_lacks_one_is_refused(tmp_path: Path, part: str) -> None:
    name = f"blk.{N_TRUNK - 1}.{part}.weight"
    path = write_step35(tmp_path / "model.gguf", 1, leave_out=[name])
    with pytest.raises(ModelFileError, match=rf"model.gguf is damaged: it lacks {name}; get it"):
        read_language_model(path)


def test_heads_need_not_be_there(tmp_path: Path) -> None:
    left_out = [f"blk.{N_TRUNK}.{part}.weight" for part in DENSE]
    model = read_language_model(write_step35(tmp_path / "model.gguf", 1, leave_out=left_out))
    assert missing_feed_forward(model) is None


def missing(model: GGUF, *layers: Sequence[str]) -> str | None:
    """What `model` misses with nothing but these parts in its first layers."""
    names = [f"blk.{i}.{part}.weight" for i, parts in enumerate(layers) for part in parts]
    tensors = tuple(Tensor(name, (1,), "F32", 0, 4) for name in names)
    return missing_feed_forward(replace(model, tensors=tensors))


def test_a_layer_is_dense_or_has_experts(tmp_path: Path) -> None:
    model = read_gguf(write_step35(tmp_path / "model.gguf", 0))
    assert missing(model, DENSE, DENSE) is None
    assert missing(model, DENSE, EXPERTS) is None
    assert missing(model, JOINED, EXPERTS) is None
    assert missing(model, DENSE, EXPERTS[:3]) == "blk.1.ffn_down_exps.weight"
    assert missing(model, JOINED[:2], DENSE) == "blk.0.ffn_down_exps.weight"
    assert missing(model, EXPERTS[1:], DENSE) == "blk.0.ffn_gate.weight"
    assert missing(model, EXPERTS) == "blk.1.ffn_gate.weight"


def test_what_llama_checks_itself_and_models_without_such_layers_are_left_to_it(
    tmp_path: Path,
) -> None:
    for architecture in ("llama", "mamba", "qwen35"):
        path = write_gguf(tmp_path / "model.gguf", architecture=architecture)
        assert missing_feed_forward(read_language_model(path)) is None
