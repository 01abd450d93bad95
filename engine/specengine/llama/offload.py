"""Models on GPUs: planned from what is free now, and with less of them where that was too much."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from specengine.core.errors import OutOfMemoryError
from specengine.files.gguf import GGUF
from specengine.llama import library
from specengine.llama.backends import gpu_devices
from specengine.llama.model_memory import model_memory
from specengine.llama.placement import Placement, place

T = TypeVar("T")


def plan(
    models: Sequence[GGUF],
    n_ctx: int,
    wanted: Sequence[int | None] = (),
    *,
    sequences: int = 1,
    flash_attention: bool = True,
    freed: Mapping[str, int] | None = None,
) -> list[Placement]:
    """Where each of `models` is computed, as `place` decides.

    `freed` bytes by device will be free when the models are loaded. Raises BackendError.
    """
    devices = [
        replace(device, free=device.free + (freed or {}).get(device.name, 0))
        for device in gpu_devices(library.load())
    ]
    needs = [
        model_memory(gguf, n_ctx, sequences, flash_attention=flash_attention) for gguf in models
    ]
    return place(devices, needs, wanted)


def load_smaller(
    placement: Placement, load: Callable[[Placement], T], on_notice: Callable[[str], None]
) -> T:
    """`load(placement)`; where memory is short all the same, with fewer and fewer layers on GPUs.

    Raises what `load` raises with none there.
    """
    while True:
        try:
            return load(placement)
        except OutOfMemoryError as error:
            if not placement.shares:
                raise
            smaller = placement.smaller()
            on_notice(
                f"the GPU has no room for {placement.n_gpu_layers} layers, so "
                f"{smaller.n_gpu_layers} are placed there: {error}"
            )
            placement = smaller
