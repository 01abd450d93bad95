"""What is no language model is called by its name, as a target and as a draft model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from specengine.core.errors import ModelFileError
from specengine.files.language_model import read_draft, read_language_model, read_target
from support.eagle3_heads import random_head
from support.gguf_files import WORDS, write_gguf, write_out
from support.head_files import write_head
from support.mtp_models import write_step35
from support.tiny_models import write_mamba


def lora(writer: gguf.GGUFWriter) -> None:
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string("adapter.type", "lora")


def of_kind(kind: str) -> Callable[[gguf.GGUFWriter], None]:
    return lambda writer: writer.add_string("general.type", kind)


def nothing(_: gguf.GGUFWriter) -> None:
    pass


@pytest.mark.parametrize(
    ("architecture", "mark", "named"),
    [
        ("llama", lora, "a LoRA adapter, not a model: merge it"),
        ("controlvector", nothing, "a control vector, .*: use the model itself"),
        ("gemma4-assistant", nothing, "a drafter that shares the cache of a Gemma 4 target"),
        ("clip", nothing, "the part of a model that reads images or sound: use the file of"),
        ("llama", of_kind("imatrix"), "an importance matrix, which is only used for quantizing"),
        ("llama", of_kind("new" * 99), "a file of the kind '(new)+ne…', not a language model"),
        ("modern-bert", nothing, "an embedding model, which cannot write text"),
        ("wavtokenizer-dec", nothing, "a decoder for sound: use a chat model"),
    ],
)
@pytest.mark.parametrize("read", [read_target, read_draft, read_language_model])
def test_each_kind_is_called_by_its_name(
    tmp_path: Path,
    architecture: str,
    mark: Callable[[gguf.GGUFWriter], None],
    named: str,
    read: Callable[[Path], object],
) -> None:
    path = tmp_path / "odd.gguf"
    writer = gguf.GGUFWriter(path, architecture)
    mark(writer)
    writer.add_tensor("direction.1", np.ones(32, np.float32))
    with pytest.raises(ModelFileError, match=rf"odd\.gguf is {named}"):
        read(write_out(writer, path))


@pytest.mark.parametrize("read", [read_target, read_draft])
def test_a_vocabulary_alone_and_a_model_without_one_are_told_apart(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    with pytest.raises(ModelFileError, match="is a vocabulary without a model: use the file with"):
        read(write_gguf(tmp_path / "vocabulary.gguf", n_tensors=0))
    with pytest.raises(ModelFileError, match="is a model without a vocabulary: convert it again"):
        read(write_mamba(tmp_path / "mamba.gguf"))


@pytest.mark.parametrize("read", [read_target, read_draft, read_language_model])
def test_heads_without_their_model_are_refused(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    trunk = [f"blk.{i}.attn_norm.weight" for i in range(2)]
    path = write_step35(tmp_path / "heads.gguf", 1, WORDS[:40], leave_out=trunk)
    with pytest.raises(ModelFileError, match="is a file with nothing but a model's heads"):
        read(path)


def test_a_head_drafts_and_is_no_target(tmp_path: Path) -> None:
    target = write_gguf(tmp_path / "target.gguf")
    head = random_head(64, len(WORDS), layers=(0, 1, 3), n_draft_vocab=20)
    path = tmp_path / "head.gguf"
    write_head(path, head, target)
    assert read_draft(path).architecture == "eagle3"
    with pytest.raises(ModelFileError, match="is a head, which drafts for one target: give it"):
        read_target(path)
    assert read_target(target).n_layer == 4
