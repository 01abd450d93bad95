"""Memory: what counts as available, and the refusal with all sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specchat.models import memory
from specchat.models.errors import MemoryShortageError
from specchat.models.memory import available_memory, require_memory
from specengine.files.gguf import GGUF, read_gguf
from specengine.llama import offload
from specengine.llama.model_memory import model_memory
from specengine.llama.placement import Device, GpuLayers
from support.gguf_files import write_gguf


@pytest.fixture
def small(tmp_path: Path) -> GGUF:
    return read_gguf(write_gguf(tmp_path / "small.gguf"))


def test_a_pair_larger_than_memory_is_refused_with_all_sizes(
    tmp_path: Path, small: GGUF, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = read_gguf(write_gguf(tmp_path / "draft.gguf"))
    needed = model_memory(small, 512).total + model_memory(draft, 512).total
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


def test_what_a_gpu_holds_needs_no_main_memory(
    small: GGUF, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Device("CUDA0", "a GPU", free=8 << 30, total=8 << 30)
    monkeypatch.setattr(offload, "gpu_devices", lambda _: [gpu])
    memory_of = model_memory(small, 512)
    left = memory_of.host + memory_of.compute
    monkeypatch.setattr(memory, "available_memory", lambda: left)
    require_memory(small, None, 512)
    with pytest.raises(MemoryShortageError):
        require_memory(small, None, 512, gpu_layers=GpuLayers(target=2))
    full = replace(gpu, free=0)
    monkeypatch.setattr(offload, "gpu_devices", lambda _: [full])
    with pytest.raises(MemoryShortageError):
        require_memory(small, None, 512)
    require_memory(small, None, 512, freed={"CUDA0": 8 << 30})
    shared = replace(gpu, shares_memory=True)
    monkeypatch.setattr(offload, "gpu_devices", lambda _: [shared])
    with pytest.raises(MemoryShortageError):
        require_memory(small, None, 512)


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
