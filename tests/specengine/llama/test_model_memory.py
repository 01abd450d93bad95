"""What a model takes of memory: never less than llama.cpp reports, and not much more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specengine.files.gguf import GGUF, Tensor, read_gguf
from specengine.llama.model_memory import model_memory
from support.gguf_files import write_gguf

MIB = 1 << 20


@pytest.fixture
def small(tmp_path: Path) -> GGUF:
    return read_gguf(write_gguf(tmp_path / "small.gguf"))


def test_the_kv_cache_is_two_bytes_for_each_key_and_value(small: GGUF) -> None:
    difference = model_memory(small, 2000).kv_cache - model_memory(small, 1000).kv_cache
    n_layer, n_head_kv, head_dim = 4, 2, 64 // 8
    assert difference == 1000 * n_layer * n_head_kv * (2 * head_dim) * 2


def test_a_context_longer_than_the_model_knows_costs_no_more(small: GGUF) -> None:
    assert model_memory(small, 2048) == model_memory(small, 100_000)


@pytest.mark.parametrize(
    ("n_ctx", "kv_cache", "compute"),
    [(2048, 50.62, 51.38), (4096, 95.62, 91.38), (8192, 185.62, 171.38)],
)
def test_the_estimate_covers_what_llama_cpp_reports(
    tiny_model: Path, n_ctx: int, kv_cache: float, compute: float
) -> None:
    """The sizes are llama.cpp's own, of its log, in MiB, flash attention off."""
    need = model_memory(read_gguf(tiny_model), n_ctx)
    assert kv_cache <= need.kv_cache / MIB < 1.15 * kv_cache
    assert compute <= need.compute / MIB < 1.25 * compute


def test_the_tied_embedding_counts_twice(tiny_model: Path) -> None:
    gguf = read_gguf(tiny_model)
    embedding = next(t.nbytes for t in gguf.tensors if t.name == "token_embd.weight")
    assert embedding is not None
    assert model_memory(gguf, 512).weights == gguf.file_size + embedding


@pytest.mark.parametrize(("n_ctx", "compute"), [(2048, 15.76), (8192, 21.76)])
def test_flash_attention_needs_room_for_no_scores(
    tiny_model: Path, n_ctx: int, compute: float
) -> None:
    """llama.cpp's own size again, in MiB, flash attention on."""
    need = model_memory(read_gguf(tiny_model), n_ctx).device_compute / MIB
    assert compute <= need < 1.4 * compute
    without = model_memory(read_gguf(tiny_model), n_ctx, flash_attention=False)
    assert without.device_compute > without.compute


def test_all_bytes_of_the_file_are_somewhere_and_each_once(tiny_model: Path) -> None:
    gguf = read_gguf(tiny_model)
    need = model_memory(gguf, 512)
    assert len(need.layers) == len(need.kv_layers) == 30
    assert need.host + sum(need.layers) == gguf.file_size
    embedding = next(t.nbytes for t in gguf.tensors if t.name == "token_embd.weight")
    assert need.units[-1] == need.output == embedding
    assert len(set(need.units[:-1])) == 1, "its layers are alike"


def test_an_output_of_its_own_is_no_part_of_the_rest(small: GGUF) -> None:
    output = Tensor("output.weight", (8, 4), "F16", 0, 64)
    need = model_memory(replace(small, tensors=(*small.tensors, output)), 512)
    assert need.output == 64
    assert need.weights == small.file_size
