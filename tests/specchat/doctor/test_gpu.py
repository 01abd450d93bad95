"""What would be on a GPU, for each profile, before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from specchat.doctor import gpu
from specchat.doctor.gpu import planned
from specchat.models.registry import Profile, Registry, load_registry
from specengine.llama import offload
from specengine.llama.placement import Device, GpuLayers

GPU = Device("X0", "the GPU", free=8 << 30, total=8 << 30)


@pytest.fixture
def with_gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[Device], None]:
    def use(device: Device) -> None:
        monkeypatch.setattr(gpu, "devices", lambda: [device])
        monkeypatch.setattr(offload, "gpu_devices", lambda _: [device])

    use(GPU)
    return use


def profile(target: object, draft: object = "lookup") -> Profile:
    return Profile(name="p", description="", target=str(target), draft=str(draft), n_ctx=512)


@pytest.fixture
def registry() -> Registry:
    return load_registry()


def test_draft_and_target_are_planned_together_as_they_will_be_loaded(
    with_gpu: Callable[[Device], None], registry: Registry, tiny_model: Path
) -> None:
    pair = profile(tiny_model, tiny_model)
    line = planned(pair, registry, GpuLayers())
    assert line == "draft all, target all on the GPU: 0.3 of 8.6 GB"
    line = planned(pair, registry, GpuLayers(target=4, draft=0))
    assert line.startswith("target 4/31 layers on the GPU")
    assert line.endswith("; draft on the CPU")


def test_what_the_loaded_models_hold_will_be_free(
    with_gpu: Callable[[Device], None], registry: Registry, tiny_model: Path
) -> None:
    with_gpu(Device("X0", "the GPU", free=0, total=8 << 30))
    assert planned(profile(tiny_model), registry, GpuLayers()) == ""
    line = planned(profile(tiny_model), registry, GpuLayers(), {"X0": 8 << 30})
    assert line.startswith("target all on the GPU")


@pytest.mark.parametrize("target", ["qwen2.5-7b", "http://127.0.0.1:1", "no such model"])
@pytest.mark.usefixtures("with_gpu")
def test_what_is_not_here_is_not_planned(
    registry: Registry, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path))
    assert planned(profile(target), registry, GpuLayers()) == ""


def test_without_a_gpu_there_is_nothing_to_say(
    registry: Registry, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "devices", list)
    assert planned(profile(tiny_model), registry, GpuLayers()) == ""
