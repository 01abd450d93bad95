"""Layers on GPUs: what is planned reaches llama.cpp, and with less where memory is short.

This machine may have no GPU, but llama.cpp takes its CPU for one as well.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specengine.core.cancel import AbortFlag
from specengine.core.errors import ModelFileError, OutOfMemoryError
from specengine.core.events import Finished
from specengine.files.gguf import read_gguf
from specengine.llama import library, offload
from specengine.llama.backends import device_list
from specengine.llama.head_cache import Eagle3Cache
from specengine.llama.model import LlamaModel
from specengine.llama.offload import load_smaller, plan
from specengine.llama.placement import Device, GpuLayers, Placement, Share
from specengine.load import pair
from specengine.load.loaded_model import LoadedModel, LoadOptions
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from support.pair_answers import unending

CPU_AS_GPU = Device("CPU", "a GPU", free=8 << 30, total=8 << 30)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Device:
    monkeypatch.setattr(offload, "gpu_devices", lambda _: [CPU_AS_GPU])
    return CPU_AS_GPU


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[SimpleNamespace]:
    """What llama.cpp is told about GPUs, for each model that is loaded."""
    llama = library.load()
    real = llama.llama_model_load_from_file
    seen = []

    def load(path: bytes, params: Any) -> Any:
        split = params.tensor_split[: llama.llama_max_devices()]
        first = (ctypes.c_void_p * 1).from_address(params.devices)[0]
        told = SimpleNamespace(n=params.n_gpu_layers, split=split, first_device=first)
        seen.append(told)
        return real(path, params)

    monkeypatch.setattr(llama, "llama_model_load_from_file", load)
    return seen


def answer(loaded: Pair) -> Finished:
    prompt = loaded.vocab.tokenize("Name three colours:")
    sampling = unending(loaded.vocab)
    *_, finished = loaded.answer(prompt, AnswerRequest(sampling, max_tokens=8, draft_length=2))
    assert isinstance(finished, Finished)
    return finished


@pytest.mark.usefixtures("gpu")
def test_a_pair_is_planned_told_to_llama_and_works(
    tiny_model: Path, given: list[SimpleNamespace]
) -> None:
    options = LoadOptions(n_ctx=256, gpu_layers=GpuLayers(target=12))
    loaded = Pair(tiny_model, tiny_model, method="model", options=options)
    target, draft = given
    assert (target.n, target.split[:2]) == (12, [12.0, 0.0])
    assert (draft.n, draft.split[:2]) == (31, [31.0, 0.0])
    [handle, _] = device_list(library.load(), [CPU_AS_GPU])
    assert target.first_device == handle
    assert loaded.placement.startswith("target 12/31 layers, draft all on a GPU: 0.2 of 8.6 GB")
    assert set(loaded.gpu_bytes) == {"CPU"}
    assert len(answer(loaded).tokens) == 8
    loaded.close()


@pytest.mark.usefixtures("gpu")
def test_pass_costs_that_were_measured_with_other_layers_there_are_not_used(
    tiny_model: Path,
) -> None:
    costs = {tiny_model.name: {1: 9.0}, f"{tiny_model.name} 31 on CPU a GPU": {1: 3.0}}
    for layers, known in ((0, {1: 9.0}), (31, {1: 3.0}), (12, {})):
        placed = GpuLayers(target=layers)
        options = LoadOptions(n_ctx=256, n_threads=1, gpu_layers=placed, costs=costs)
        loaded = Pair(tiny_model, method="none", options=options)
        loaded.close()
        assert loaded.context.costs.as_dict() == known


def test_without_a_share_every_gpu_is_left_alone(
    tiny_model: Path, given: list[SimpleNamespace]
) -> None:
    with LlamaModel(tiny_model):
        pass
    [told] = given
    assert (told.n, told.first_device) == (0, None)


def test_without_a_gpu_nothing_is_planned(tiny_model: Path) -> None:
    [placement] = plan([read_gguf(tiny_model)], 256)
    assert placement.shares == ()


@pytest.mark.usefixtures("gpu")
def test_a_target_that_finds_no_room_is_loaded_with_fewer_layers_and_it_is_said(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    class Crowded(LoadedModel):
        def __init__(self, *arguments: Any, placement: Placement, **options: Any) -> None:
            tried.append(placement.n_gpu_layers)
            if placement.n_gpu_layers > 10:
                raise OutOfMemoryError("unable to allocate CUDA0 buffer")
            super().__init__(*arguments, placement=placement, **options)

    monkeypatch.setattr(pair, "LoadedModel", Crowded)
    loaded = Pair(tiny_model, method="none", options=LoadOptions(n_ctx=256))
    assert tried == [31, 15, 7]
    assert loaded.placement.startswith("target 7/31 layers on")
    assert loaded.notices == [
        f"{tiny_model.name}: the GPU has no room for {more} layers, so {fewer} are placed there: "
        "unable to allocate CUDA0 buffer"
        for more, fewer in ((31, 15), (15, 7))
    ]
    assert len(answer(loaded).tokens) == 8
    loaded.close()


def test_memory_that_is_short_on_the_cpu_too_is_an_error(tiny_model: Path) -> None:
    tried = []

    def load(placement: Placement) -> None:
        tried.append(placement.n_gpu_layers)
        raise OutOfMemoryError("no memory")

    memory = plan([read_gguf(tiny_model)], 256)[0].memory
    with pytest.raises(OutOfMemoryError):
        load_smaller(Placement(memory, (Share(CPU_AS_GPU, 5, 10),)), load, lambda notice: None)
    assert tried == [5, 2, 1, 0]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("llama_model_load: error loading model: unable to allocate CUDA0 buffer", True),
        ("ggml_vulkan: Device memory allocation of size 1 failed: ErrorOutOfDeviceMemory", True),
        ("llama_model_load: error loading model: missing tensor 'output.weight'", False),
    ],
)
def test_only_a_shortage_of_memory_is_one(line: str, kind: bool) -> None:
    library.clear_errors()
    library._log.write(4, f"{line}\n".encode())
    error = library.failure("it failed")
    library.clear_errors()
    assert isinstance(error, OutOfMemoryError) is kind
    assert isinstance(error, ModelFileError)


def test_a_head_whose_context_does_not_fit_may_be_loaded_smaller(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        library._log.write(4, b"ggml_backend_cuda: unable to allocate CUDA0 buffer\n")

    with LlamaModel(tiny_model) as model:
        monkeypatch.setattr(library.load(), "llama_init_from_model", fail)
        with pytest.raises(OutOfMemoryError, match="use a smaller --ctx"):
            Eagle3Cache(model, None, width=8, n_ctx=64, n_threads=1, abort=AbortFlag())
    library.clear_errors()
