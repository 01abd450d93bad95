"""Where layers go: never more than is free, the draft model first, and more memory never hurts."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from specengine.llama.model_memory import ModelMemory
from specengine.llama.placement import (
    Device,
    GpuLayers,
    Placement,
    costs_name,
    place,
    summary,
    usage,
)

GB = 1_000_000_000


def device(name: str, free: int, total: int | None = None, *, shared: bool = False) -> Device:
    return Device(name, f"the GPU {name}", free, total or free, shared)


def model(n_layers: int, layer: int, output: int = 0, compute: int = 0) -> ModelMemory:
    """A model whose layers take `layer` bytes each, a tenth of it KV cache."""
    kv = layer // 10
    return ModelMemory(
        host=GB,
        layers=(layer - kv,) * n_layers,
        output=output,
        kv_layers=(kv,) * n_layers,
        compute=2 * compute,
        device_compute=compute,
    )


sizes = st.integers(0, 40 * GB)
models = st.builds(
    model,
    st.integers(1, 40),
    st.integers(0, 2 * GB),
    st.integers(0, 2 * GB),
    st.integers(0, GB),
)
gpus = st.lists(sizes, min_size=0, max_size=4).map(
    lambda free: [device(f"GPU{number}", size) for number, size in enumerate(free)]
)


def counts(placements: list[Placement]) -> list[int]:
    return [placement.n_gpu_layers for placement in placements]


@given(gpus, st.lists(models, min_size=1, max_size=3))
def test_no_device_gets_more_than_it_has_free_less_its_reserve(
    devices: list[Device], needs: list[ModelMemory]
) -> None:
    used = usage(place(devices, needs))
    for each in devices:
        assert used.get(each.name, 0) <= each.budget
        assert each.budget <= max(0, each.free - (512 << 20))


@given(sizes, st.integers(0, 40 * GB), st.lists(models, min_size=1, max_size=3))
def test_with_more_memory_more_is_placed_in_order_of_precedence(
    free: int, more: int, needs: list[ModelMemory]
) -> None:
    total = free + more
    before = counts(place([device("GPU", free, total)], needs))
    after = counts(place([device("GPU", total, total)], needs))
    assert after >= before, "what comes first decides, as in a dictionary"


@given(gpus, st.integers(0, 3), st.integers(0, 40 * GB), models)
def test_with_more_memory_on_any_device_a_model_loses_nothing(
    devices: list[Device], which: int, more: int, need: ModelMemory
) -> None:
    if which >= len(devices):
        return
    devices = [replace(each, total=80 * GB) for each in devices]
    grown = replace(devices[which], free=devices[which].free + more)
    after = place([*devices[:which], grown, *devices[which + 1 :]], [need])
    assert counts(after) >= counts(place(devices, [need]))


@given(gpus, models, models)
def test_the_first_model_is_placed_as_if_it_were_alone(
    devices: list[Device], draft: ModelMemory, target: ModelMemory
) -> None:
    assert place(devices, [draft, target])[0] == place(devices, [draft])[0]


@given(gpus, models)
def test_layers_are_shared_out_from_the_first_on_a_gpu_to_the_output(
    devices: list[Device], need: ModelMemory
) -> None:
    """llama.cpp gives each device a run of consecutive layers, in the order of the list."""
    [placement] = place(devices, [need])
    units = list(need.units[len(need.units) - placement.n_gpu_layers :])
    for share in placement.shares:
        mine, units = units[: share.n_layers], units[share.n_layers :]
        assert share.nbytes == sum(mine) + need.device_compute
    assert units == []


@given(gpus, models)
def test_main_memory_and_gpus_together_hold_the_whole_model(
    devices: list[Device], need: ModelMemory
) -> None:
    [placement] = place(devices, [need])
    on_gpus = sum(share.nbytes - need.device_compute for share in placement.shares)
    assert placement.host_bytes + on_gpus == need.total
    shared = [replace(each, shares_memory=True) for each in devices]
    assert place(shared, [need])[0].host_bytes == need.total


def test_the_draft_model_comes_first_and_the_target_gets_the_rest() -> None:
    draft, target = model(24, 15_000_000, compute=GB // 10), model(28, GB // 5, GB // 2, GB // 10)
    gpu = Device("CUDA0", "NVIDIA GeForce RTX 4060", free=6_200_000_000, total=8_000_000_000)
    placed = place([gpu], [draft, target])
    assert counts(placed) == [25, 24]
    roles = {"target": placed[1], "draft": placed[0]}
    assert (
        summary(roles) == "target 24/29 layers, draft all on NVIDIA GeForce RTX 4060: 5.7 of 8.0 GB"
    )


def test_a_model_that_fits_on_one_device_is_not_split() -> None:
    [placement] = place([device("A", 4 * GB), device("B", 8 * GB)], [model(30, GB // 5)])
    assert [share.device.name for share in placement.shares] == ["B"]
    assert placement.n_gpu_layers == 31


def test_what_one_device_has_no_room_for_goes_to_the_next() -> None:
    devices = [device("A", 4 * GB), device("B", 8 * GB)]
    [placement] = place(devices, [model(30, GB // 3, output=GB)])
    assert [(share.device.name, share.n_layers) for share in placement.shares] == [
        ("B", 22),
        ("A", 8),
    ]


def test_a_person_is_obeyed_whatever_fits() -> None:
    target, gpu = model(28, GB // 5), device("A", 2 * GB)
    for wanted, placed in ((0, 0), (20, 20), (999, 29)):
        assert counts(place([gpu], [target], [wanted])) == [placed]
    assert counts(place([], [target], [20])) == [0], "there is no GPU"


def test_smaller_is_half_as_many_and_in_the_end_none() -> None:
    [placement] = place([device("A", 8 * GB)], [model(28, GB // 5)])
    tried = [placement.n_gpu_layers]
    while placement.shares:
        placement = placement.smaller()
        tried.append(placement.n_gpu_layers)
    assert tried == [29, 14, 7, 3, 1, 0]


def test_what_is_on_the_cpu_is_said_and_nothing_without_a_gpu() -> None:
    small, large = model(10, GB // 5), model(9, 4 * GB, output=4 * GB)
    target, draft = place([device("A", 4 * GB)], [small, large])
    assert summary({"target": target, "draft": draft}) == (
        "target all on the GPU A: 2.0 of 4.0 GB; draft on the CPU"
    )
    assert summary({"target": draft, "draft": None}) == ""


def test_unless_told_otherwise_as_many_as_fit() -> None:
    assert GpuLayers() == (None, None)


def test_each_way_of_loading_a_model_has_its_own_costs() -> None:
    [on_gpu] = place([device("A", 8 * GB)], [model(3, GB // 5)])
    assert costs_name("m.gguf", None, repacked=True) == "m.gguf"
    assert costs_name("m.gguf", None, repacked=False) == "m.gguf not repacked"
    assert costs_name("m.gguf", on_gpu, repacked=True) == "m.gguf 4 on A the GPU A"
    assert costs_name("m.gguf", on_gpu, repacked=False) == "m.gguf 4 on A the GPU A, not repacked"
