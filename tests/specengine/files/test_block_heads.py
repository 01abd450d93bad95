"""Block heads that would end llama.cpp's process, or could draft nothing, are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specengine.core.errors import ModelFileError
from specengine.files.block_heads import BlockShape, block_shape
from specengine.files.gguf import GGUF, read_gguf
from specengine.files.head_files import (
    check_head,
    feature_bytes,
    is_head,
    kind_of_head,
    target_layers,
)
from specengine.files.language_model import read_language_model
from support.block_heads import BLOCK, TOP_K, random_block_head
from support.gguf_files import WORDS, write_gguf
from support.head_files import write_head

N_EMBD = 64


@pytest.fixture
def target(tmp_path: Path) -> GGUF:
    return read_gguf(write_gguf(tmp_path / "target.gguf"))


def written(target: GGUF, settings: dict[str, Any] | None = None, **changes: Any) -> GGUF:
    weights = random_block_head(
        N_EMBD, len(WORDS), layers=(0, 3), mask=9, **{"n_draft_vocab": 20} | (settings or {})
    )
    path = target.path.with_name("head.gguf")
    return read_gguf(write_head(path, weights, target.path, **changes))


@pytest.mark.parametrize(
    ("settings", "kind", "shape"),
    [
        ({}, "DFlash", BlockShape(BLOCK, 9)),
        ({"attention.causal": True}, "DFlash", BlockShape(BLOCK, 9, causal=True)),
        ({"markov": True}, "DSpark", BlockShape(BLOCK, 9, anchored=True)),
        ({"markov": True, "sample_from_anchor": False}, "DSpark", BlockShape(BLOCK, 9)),
        ({"selector": True}, "DFlash 2", BlockShape(BLOCK, 9, n_candidates=TOP_K)),
    ],
    ids=str,
)
def test_the_header_tells_how_it_drafts(
    target: GGUF, settings: dict[str, Any], kind: str, shape: BlockShape
) -> None:
    head = written(target, settings)
    check_head(target, head)
    assert is_head(head)
    assert (kind_of_head(head), block_shape(head)) == (kind, shape)
    assert shape.longest == (BLOCK if shape.anchored else BLOCK - 1)
    assert target_layers(head) == [0, 3]
    assert feature_bytes(head, 100) == 100 * 2 * N_EMBD * 4


def test_a_head_that_looks_both_ways_is_no_model_that_embeds_texts(target: GGUF) -> None:
    head = written(target, {"attention.causal": False})
    assert read_language_model(head.path).architecture == "dflash"
    assert block_shape(head).causal is False


@pytest.mark.parametrize(
    ("settings", "metadata", "cause"),
    [
        ({}, {"tokenizer.ggml.mask_token_id": None}, "needs a mask token, and it names none"),
        ({}, {"tokenizer.ggml.mask_token_id": 62}, "names 62, which is not in the vocabulary"),
        ({}, {"block_size": 1}, "blocks of 1 tokens leave no room"),
        ({"markov": True}, {"block_size": 0}, "blocks of 0 tokens leave no room"),
        ({"markov": True}, {"block_size": None}, "a Markov head but no block_size"),
        ({"markov": True, "selector": True}, {}, "both a Markov head and a selector"),
        ({"selector": True}, {"selector_top_k": 0}, "selector names 0 candidates"),
        ({}, {"hyper_connection.count": 4}, "hyper-connections"),
        ({}, {"target_layers": None}, "does not say which layers"),
        ({}, {"target_layers": [0, 4]}, "reads layer 4 of its target, .* layers 0 to 3"),
        ({}, {"embedding_length": 32}, "hidden states of size 32, but those of .* have size 64"),
        ({}, {"attention.value_length": 16}, "its values 16"),
        ({}, {"attention.head_count_kv": 3}, "4 attention heads over 3"),
    ],
)
def test_headers_that_llama_cpp_would_not_survive_are_refused(
    target: GGUF, settings: dict[str, Any], metadata: dict[str, Any], cause: str
) -> None:
    with pytest.raises(ModelFileError, match=cause):
        check_head(target, written(target, settings, metadata=metadata))


@pytest.mark.parametrize(
    ("tensors", "cause"),
    [
        ({"d2t": np.arange(20) + len(WORDS)}, "does not name different tokens"),
        ({"d2t": None}, "output of 20 tokens but no d2t"),
        ({"fc.weight": np.ones((N_EMBD, 2 * N_EMBD), np.int32)}, "'fc.weight' has the type I32"),
    ],
)
def test_tensors_that_llama_cpp_would_not_survive_are_refused(
    target: GGUF, tensors: dict[str, Any], cause: str
) -> None:
    with pytest.raises(ModelFileError, match=cause):
        check_head(target, written(target, tensors=tensors))
