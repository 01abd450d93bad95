"""Refused: heads of another target, and those at which llama.cpp would end the process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specengine.core.errors import ModelFileError, VocabMismatchError
from specengine.files.compatibility import compare, require_compatible
from specengine.files.gguf import GGUF, read_gguf
from specengine.files.head_files import check_head, feature_bytes, is_head, target_layers
from specengine.llama.model_memory import model_memory
from support.eagle3_heads import random_head
from support.gguf_files import WORDS, write_gguf
from support.head_files import RandomHead, write_head

N_EMBD = 64
HEAD = random_head(N_EMBD, len(WORDS), layers=(0, 1, 3), n_draft_vocab=20)


@pytest.fixture
def target(tmp_path: Path) -> GGUF:
    return read_gguf(write_gguf(tmp_path / "target.gguf"))


def written(target: GGUF, head: RandomHead = HEAD, **changes: Any) -> GGUF:
    path = target.path.with_name("head.gguf")
    return read_gguf(write_head(path, head, changes.pop("vocabulary", target.path), **changes))


def test_a_head_of_this_target_is_told_from_a_draft_model(target: GGUF) -> None:
    head = written(target)
    assert is_head(head)
    assert not is_head(target)
    assert target_layers(head) == [0, 1, 3]
    comparison = compare(target, head)
    assert (comparison.way, comparison.verdict, comparison.cause) == ("head", "equal", None)
    assert require_compatible(target, head) == comparison


def test_what_belongs_to_another_target_is_one_line(target: GGUF) -> None:
    head = written(target, metadata={"target_hidden_size": 32})
    comparison = compare(target, head)
    assert comparison.way == "none"
    assert comparison.cause == (
        "head.gguf reads hidden states of size 32, but those of target.gguf have size 64: "
        "it belongs to another model"
    )
    with pytest.raises(VocabMismatchError, match=r"head.gguf cannot draft for target.gguf: head"):
        require_compatible(target, head)


def test_another_vocabulary_is_refused(target: GGUF, tmp_path: Path) -> None:
    other = write_gguf(tmp_path / "other.gguf", tokens=[*WORDS[:-1], "word"])
    with pytest.raises(ModelFileError, match=r"vocabulary of head.gguf is not that of target.gguf"):
        check_head(target, written(target, vocabulary=other))
    with pytest.raises(ModelFileError, match="vocabulary"):
        check_head(target, written(target, vocabulary=None))


def test_a_server_sends_no_hidden_states(target: GGUF) -> None:
    head = written(target)
    vocabulary = replace(target, tensors=())
    with pytest.raises(ModelFileError, match="which a server does not send"):
        check_head(vocabulary, head)


def test_memory_is_counted_for_the_features_of_every_token(target: GGUF) -> None:
    head = written(target)
    assert feature_bytes(head, 1000) == 1000 * 3 * N_EMBD * 4
    grows = model_memory(head, 900).host - model_memory(head, 500).host
    assert grows == 400 * 3 * N_EMBD * 4


def test_an_architecture_whose_layers_are_not_recorded_is_refused(target: GGUF) -> None:
    head = written(target)
    names: dict[str, int | float | str] = {"general.architecture": "qwen2"}
    names["qwen2.embedding_length"] = N_EMBD
    qwen = replace(target, metadata={**target.metadata, **names})
    with pytest.raises(ModelFileError, match=r"architecture 'qwen2', for which llama\.cpp cannot"):
        check_head(qwen, head)


@pytest.mark.parametrize(
    ("metadata", "cause"),
    [
        ({"target_layers": [0, 1]}, "reads three layers, and it names 2"),
        ({"target_layers": None}, "does not say which layers"),
        ({"target_layers": [0.5, 1.5, 2.5]}, "does not say which layers"),
        ({"target_layers": [0, 1, 4]}, "reads layer 4 of its target, .* layers 0 to 3"),
        ({"target_layers": [-1, 1, 2]}, "reads layer -1"),
        ({"block_count": 4}, "it has 4 layers, but llama.cpp runs EAGLE-3 heads of one layer"),
        (
            {"nextn_predict_layers": 1},
            "it has 0 layers, but llama.cpp runs EAGLE-3 heads of one layer",
        ),
        ({"embedding_length_out": 128}, "input states have size 64, its output states 128"),
        ({"attention.head_count": 0}, "has 0 attention heads"),
        ({"attention.head_count_kv": 0}, "heads over 0"),
        ({"attention.head_count_kv": 3}, "4 attention heads over 3"),
        ({"attention.value_length": 16}, "keys have 32 numbers, 32 of them rotated, its values 16"),
        ({"rope.dimension_count": 33}, "33 of them rotated"),
        ({"rope.dimension_count": 31}, "31 of them rotated"),
    ],
)
def test_numbers_that_llama_cpp_would_not_survive_are_refused(
    target: GGUF, metadata: dict[str, Any], cause: str
) -> None:
    with pytest.raises(ModelFileError, match=cause):
        check_head(target, written(target, metadata=metadata))


IDS = HEAD.tensors["d2t"]
TWICE = np.where(IDS[3] == IDS, IDS[4], IDS)


@pytest.mark.parametrize(
    ("tensors", "cause"),
    [
        ({"d2t": IDS.astype(np.int32)}, r"d2t \(I32"),
        ({"d2t": IDS[:-1]}, "does not name its output"),
        ({"d2t": None}, "output of 20 tokens but no d2t"),
        ({"d2t": IDS - IDS[0] - 1}, "does not name different tokens"),
        ({"d2t": IDS + len(WORDS)}, "does not name different tokens"),
        ({"d2t": TWICE}, "does not name different tokens"),
        ({"output.weight": None}, "does not name its output"),
        ({"token_embd.weight": np.ones((5, N_EMBD))}, r"token_embd.weight has the shape \(64, 5\)"),
        ({"fc.weight": np.ones((N_EMBD, 3 * N_EMBD), np.int32)}, "fc.weight' has the type I32"),
    ],
)
def test_tensors_that_llama_cpp_would_not_survive_are_refused(
    target: GGUF, tensors: dict[str, Any], cause: str
) -> None:
    with pytest.raises(ModelFileError, match=cause):
        check_head(target, written(target, tensors=tensors))


def test_a_narrower_head_needs_its_own_embeddings(target: GGUF) -> None:
    narrow = random_head(32, len(WORDS), layers=(0, 1, 3), n_draft_vocab=20)
    size = {"target_hidden_size": N_EMBD}
    with pytest.raises(ModelFileError, match=r"no token_embd.weight of its own"):
        check_head(target, written(target, narrow, metadata=size))
    own = {"token_embd.weight": np.ones((len(WORDS), 32))}
    check_head(target, written(target, narrow, metadata=size, tensors=own))
