"""Memory: the estimate, what counts as available, and the refusal with all sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.models import memory
from specchat.models.errors import MemoryShortageError
from specchat.models.memory import available_memory, estimate, require_memory
from specengine.gguf import GGUF, read_gguf
from support.gguf_files import write_gguf

MIB = 1 << 20


@pytest.fixture
def small(tmp_path: Path) -> GGUF:
    return read_gguf(write_gguf(tmp_path / "small.gguf"))


def test_the_kv_cache_is_two_bytes_for_each_key_and_value(small: GGUF) -> None:
    difference = estimate(small, 2000).kv_cache - estimate(small, 1000).kv_cache
    n_layer, n_head_kv, head_dim = 4, 2, 64 // 8
    assert difference == 1000 * n_layer * n_head_kv * (2 * head_dim) * 2


def test_a_context_longer_than_the_model_knows_costs_no_more(small: GGUF) -> None:
    assert estimate(small, 2048) == estimate(small, 100_000)


@pytest.mark.parametrize(
    ("n_ctx", "kv_cache", "compute"),
    [(2048, 50.62, 51.38), (4096, 95.62, 91.38), (8192, 185.62, 171.38)],
)
def test_the_estimate_covers_what_llama_cpp_reports(
    tiny_model: Path, n_ctx: int, kv_cache: float, compute: float
) -> None:
    """The sizes are llama.cpp's own, of its log, in MiB, flash attention off."""
    need = estimate(read_gguf(tiny_model), n_ctx)
    assert kv_cache <= need.kv_cache / MIB < 1.15 * kv_cache
    assert compute <= need.compute / MIB < 1.25 * compute


def test_the_tied_embedding_counts_twice(tiny_model: Path) -> None:
    gguf = read_gguf(tiny_model)
    embedding = next(t.nbytes for t in gguf.tensors if t.name == "token_embd.weight")
    assert embedding is not None
    assert estimate(gguf, 512).weights == gguf.file_size + embedding


def test_a_pair_larger_than_memory_is_refused_with_all_sizes(
    tmp_path: Path, small: GGUF, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = read_gguf(write_gguf(tmp_path / "draft.gguf"))
    needed = estimate(small, 512).total + estimate(draft, 512).total
    monkeypatch.setattr(memory, "available_memory", lambda: needed - 1)
    with pytest.raises(MemoryShortageError) as caught:
        require_memory(small, draft, 512)
    message = str(caught.value)
    assert "small.gguf needs" in message
    assert "draft.gguf needs" in message
    assert "draft by lookup" in message
    require_memory(small, None, 512)
    monkeypatch.setattr(memory, "available_memory", lambda: needed)
    require_memory(small, draft, 512)


def test_a_container_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = available_memory()
    group = tmp_path / "a/b"
    group.mkdir(parents=True)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "a/memory.max").write_text("1000000\n")
    (tmp_path / "a/memory.current").write_text("600000\n")
    (tmp_path / "a/memory.stat").write_text("anon 500000\ninactive_file 90000\n")
    (tmp_path / "cgroup").write_text("0::/a/b\n")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    monkeypatch.setattr(memory, "_OWN_CGROUP", tmp_path / "cgroup")
    assert available_memory() == 1_000_000 - 600_000 + 90_000
    (tmp_path / "a/memory.max").write_text("max\n")
    assert available_memory() > unlimited // 2
