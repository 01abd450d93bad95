"""Does a pair fit into this computer's memory? Estimated from the headers, before loading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from specchat.models.errors import MemoryShortageError
from specchat.models.sizes import readable_size
from specengine.files.gguf import GGUF
from specengine.llama.offload import plan
from specengine.llama.placement import GpuLayers

_CGROUP = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")


def require_memory(
    target: GGUF,
    draft: GGUF | None,
    n_ctx: int,
    sequences: int = 1,
    *,
    gpu_layers: GpuLayers = GpuLayers(),  # noqa: B008, it is immutable
    freed: Mapping[str, int] | None = None,
) -> None:
    """Raises MemoryShortageError, with all sizes, if the pair needs more than is available: of
    main memory, for all that no GPU with memory of its own takes; see
    `specengine.llama.offload.plan`.
    """
    models = [gguf for gguf in (draft, target) if gguf is not None]
    wanted = [gpu_layers.draft, gpu_layers.target][-len(models) :]
    placements = plan(models, n_ctx, wanted, sequences=sequences, freed=freed)
    available = available_memory()
    total = sum(placement.host_bytes for placement in placements)
    if total <= available:
        return
    each = " and ".join(
        f"{gguf.path.name} needs {readable_size(placement.host_bytes)} "
        f"({readable_size(placement.memory.weights)} of weights)"
        for gguf, placement in zip(models, placements, strict=True)
    )
    raise MemoryShortageError(
        f"not enough memory: {each}; together {readable_size(total)}, but only "
        f"{readable_size(available)} are available: use a smaller model"
        + (", draft by lookup (--draft lookup)," if len(models) > 1 else "")
        + f" or a context shorter than {n_ctx} tokens"
    )


def available_memory() -> int:
    """Bytes that can be used without swapping, within the limits of a container."""
    return min([psutil.virtual_memory().available, *_cgroup_headroom()])


def _cgroup_headroom() -> Iterator[int]:
    """For each control group around this process that has a limit, what is left of it."""
    with suppress(OSError):
        for line in _OWN_CGROUP.read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            if controllers == "":
                yield from _headroom(_CGROUP, name, "memory.max", "memory.current")
            elif "memory" in controllers.split(","):
                root = _CGROUP / "memory"
                usage = "memory.usage_in_bytes"
                yield from _headroom(root, name, "memory.limit_in_bytes", usage)


def _headroom(root: Path, name: str, limit: str, usage: str) -> Iterator[int]:
    group = root / name.lstrip("/")
    for folder in (group, *group.parents):
        with suppress(OSError, ValueError):  # no limit reads "max"
            yield (
                int((folder / limit).read_text())
                - int((folder / usage).read_text())
                + (_reclaimable(folder / "memory.stat"))
            )
        if folder == root:
            return


def _reclaimable(stat: Path) -> int:
    """File pages that count as used and would be dropped for us."""
    fields = (line.split() for line in stat.read_text().splitlines())
    return next((int(value) for key, value in fields if key == "inactive_file"), 0)
