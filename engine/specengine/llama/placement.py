"""Which layers of which model go to which GPU: planned from free memory, before loading.

Models are placed in order, the drafter's first: it runs several times a round, and little memory
makes all of it fast. What follows gets what is left. llama.cpp computes the last layers of a model
on GPUs and the first on the CPU, in one run of consecutive layers for each device, and counts the
output matrix as one more layer after the last; so does `n_gpu_layers`, and so is counted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from specengine.llama.model_memory import ModelMemory

# Left free on a device: for what its driver and kernels allocate while they work, which no
# estimate knows and which ends the process where it fails, and for the screen.
_SMALLEST_RESERVE = 512 << 20
_LARGEST_RESERVE = 1 << 30
_RESERVED_PART = 16


class GpuLayers(NamedTuple):
    """How many layers a person wants on GPUs, the output counted as one; None: as many as fit."""

    target: int | None = None
    draft: int | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, with llama.cpp's own `name` for it. Memory in bytes."""

    name: str
    description: str
    free: int
    total: int
    shares_memory: bool = False
    """Its memory is the computer's, as that of integrated GPUs and of Apple's."""

    @property
    def budget(self) -> int:
        """What may be planned of its free memory."""
        reserve = min(max(self.total // _RESERVED_PART, _SMALLEST_RESERVE), _LARGEST_RESERVE)
        return max(0, self.free - reserve)


@dataclass(frozen=True, slots=True)
class Share:
    """How many layers of a model a device computes, and the bytes that they take there."""

    device: Device
    n_layers: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a model is computed: the first layers on the CPU, the others in order of `shares`."""

    memory: ModelMemory
    shares: tuple[Share, ...] = ()

    @property
    def n_gpu_layers(self) -> int:
        return sum(share.n_layers for share in self.shares)

    @property
    def n_layers(self) -> int:
        """All that could be on a GPU: the layers, and the output."""
        return len(self.memory.units)

    @property
    def host_bytes(self) -> int:
        """What it takes of main memory, with what lies on devices that share it."""
        elsewhere = sum(
            share.nbytes - self.memory.device_compute
            for share in self.shares
            if not share.device.shares_memory
        )
        return self.memory.total - elsewhere

    def smaller(self) -> Placement:
        """Half as many layers on the same devices: to try when llama.cpp finds no room."""
        devices = [share.device for share in self.shares]
        return _assigned(self.memory, devices, {}, self.n_gpu_layers // 2)

    def __str__(self) -> str:
        if self.n_gpu_layers == self.n_layers:
            return "all"
        return f"{self.n_gpu_layers}/{self.n_layers} layers"


def costs_name(file: str, placement: Placement | None, *, repacked: bool) -> str:
    """What the pass costs of a model are kept under: the name of its file, and after a space what
    makes them others: layers on GPUs, and weights that are not `repacked` for the CPU.
    """
    shares = placement.shares if placement is not None else ()
    how = [f"{each.n_layers} on {each.device.name} {each.device.description}" for each in shares]
    if not repacked:
        how.append("not repacked")
    return " ".join((file, ", ".join(how))) if how else file


def place(
    devices: Sequence[Device],
    models: Sequence[ModelMemory],
    wanted: Sequence[int | None] = (),
) -> list[Placement]:
    """A placement for each of `models`, in order of precedence.

    As many layers of each as fit beside those before it: on the device with the most room, and
    from there on the next. `wanted` numbers (None: as many as fit) are obeyed even where they do
    not fit.
    """
    budgets = {device.name: device.budget for device in devices}
    placements = []
    for number, memory in enumerate(models):
        asked = wanted[number] if number < len(wanted) else None
        placement = _place_one(devices, budgets, memory, asked)
        for share in placement.shares:
            budgets[share.device.name] -= share.nbytes
        placements.append(placement)
    return placements


def usage(placements: Iterable[Placement]) -> dict[str, int]:
    """Bytes on each device that is used, by its name."""
    used: dict[str, int] = {}
    for share in (share for placement in placements for share in placement.shares):
        used[share.device.name] = used.get(share.device.name, 0) + share.nbytes
    return used


def summary(roles: Mapping[str, Placement | None]) -> str:
    """One line: what part of each model, by its role, is on which GPU, and the memory of that.

    Empty where no layer is on any.
    """
    placements = {role: placement for role, placement in roles.items() if placement is not None}
    used = usage(placements.values())
    if not used:
        return ""
    devices = {share.device for placement in placements.values() for share in placement.shares}
    on_gpus = ", ".join(f"{role} {each}" for role, each in placements.items() if each.shares)
    on_cpu = "".join(f"; {role} on the CPU" for role, each in placements.items() if not each.shares)
    sizes = " and ".join(
        f"{device.description}: {used[device.name] / 1e9:.1f} of {device.total / 1e9:.1f} GB"
        for device in sorted(devices, key=lambda device: device.name)
    )
    return f"{on_gpus} on {sizes}{on_cpu}"


def _place_one(
    devices: Sequence[Device], budgets: Mapping[str, int], memory: ModelMemory, wanted: int | None
) -> Placement:
    ordered = sorted(devices, key=lambda device: -budgets[device.name])
    if wanted is not None:
        return _assigned(memory, ordered, budgets, min(wanted, len(memory.units)))
    for n_layers in range(len(memory.units), 0, -1):
        placement = _assigned(memory, ordered, budgets, n_layers)
        if all(share.nbytes <= budgets[share.device.name] for share in placement.shares):
            return placement
    return Placement(memory)


def _assigned(
    memory: ModelMemory, devices: Sequence[Device], budgets: Mapping[str, int], n_layers: int
) -> Placement:
    """The last `n_layers` on `devices` in their order, each filled before the next.

    The last device takes what is left, even where it does not fit.
    """
    if not devices or not n_layers:
        return Placement(memory)
    units = list(memory.units[-n_layers:])
    shares = []
    for device in devices:
        last = device is devices[-1]
        room = budgets.get(device.name, device.budget) - memory.device_compute
        count, nbytes = 0, 0
        while count < len(units) and (last or nbytes + units[count] <= room):
            nbytes += units[count]
            count += 1
        units = units[count:]
        if count:
            shares.append(Share(device, count, nbytes + memory.device_compute))
    return Placement(memory, tuple(shares))
