"""Which GPUs llama.cpp offers, read from a registry of our own making."""

from __future__ import annotations

import platform
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from specengine.core.errors import BackendError
from specengine.llama import library
from specengine.llama.backends import gpu_devices, load_backends

CPU, GPU, INTEGRATED, ACCELERATOR = range(4)


def registry(*devices: tuple[str, int, int, int], backends: int = 1) -> ModuleType:
    """llama-cpp-python with these devices: (name, type, free, total)."""
    state = SimpleNamespace(backends=backends, loaded=[])

    def load_all(folder: bytes) -> None:
        state.loaded.append(folder)
        state.backends += len(devices)

    def memory(handle: int, free: Any, total: Any) -> None:
        free._obj.value, total._obj.value = devices[handle][2:]

    functions = {
        "reg_count": lambda: state.backends,
        "load_all_from_path": load_all,
        "dev_count": lambda: len(devices),
        "dev_get": lambda number: number,
        "dev_type": lambda handle: devices[handle][1],
        "dev_name": lambda handle: devices[handle][0].encode(),
        "dev_description": lambda handle: f"the {devices[handle][0]}".encode(),
        "dev_memory": memory,
    }
    named = {f"ggml_backend_{name}": function for name, function in functions.items()}
    llama = SimpleNamespace(_lib=SimpleNamespace(**named), _base_path="/lib", state=state)
    return cast(ModuleType, SimpleNamespace(llama_cpp=llama))


def test_a_build_for_cpus_has_no_gpu() -> None:
    assert gpu_devices(registry(("CPU", CPU, 1, 2), ("BLAS", ACCELERATOR, 1, 2))) == []
    if not library.load().llama_supports_gpu_offload():
        assert gpu_devices(library.load()) == []


def test_gpus_come_in_llamas_order_with_their_memory() -> None:
    llama = registry(("CUDA0", GPU, 5, 8), ("CUDA1", GPU, 20, 24), ("CPU", CPU, 1, 2))
    first, second = gpu_devices(llama)
    assert (first.name, first.description, first.free, first.total) == ("CUDA0", "the CUDA0", 5, 8)
    assert (second.name, second.shares_memory) == ("CUDA1", False)


def test_integrated_gpus_count_only_where_there_is_no_other() -> None:
    both = registry(("Vulkan0", INTEGRATED, 5, 8), ("Vulkan1", GPU, 5, 8))
    assert [device.name for device in gpu_devices(both)] == ["Vulkan1"]
    [alone] = gpu_devices(registry(("Vulkan0", INTEGRATED, 5, 8)))
    assert alone.shares_memory


def test_apples_gpus_share_the_computers_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    [metal] = gpu_devices(registry(("MTL0", GPU, 5, 8)))
    assert metal.shares_memory


def test_a_gpu_that_reports_no_memory_is_planned_with_the_computers() -> None:
    [device] = gpu_devices(registry(("Vulkan0", GPU, 0, 0)))
    assert device.shares_memory
    assert 0 < device.free < device.total


def test_backends_in_files_are_loaded_once_and_built_in_ones_never() -> None:
    separate = registry(("CPU", CPU, 1, 2), backends=0)
    load_backends(separate)
    load_backends(separate)
    assert separate.llama_cpp.state.loaded == [b"/lib"]
    built_in = registry(("CPU", CPU, 1, 2))
    load_backends(built_in)
    assert built_in.llama_cpp.state.loaded == []


def test_no_backend_at_all_is_said() -> None:
    with pytest.raises(BackendError, match="no backend for this CPU in /lib"):
        load_backends(registry(backends=0))
