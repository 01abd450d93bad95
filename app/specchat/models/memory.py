"""Does a pair fit into this computer's memory? Estimated from the headers, before loading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from specchat.models.errors import MemoryShortageError
from specchat.models.sizes import readable_size
from specengine.gguf import GGUF

_CACHE_BYTES = 2  # keys and values are kept as float16
_COMPUTE_BYTES = 4  # activations are float32
_BATCH_ROWS = 512  # rows that llama.cpp evaluates at once
_SPARE_CELLS = 320  # the engine's own, and llama.cpp's rounding up to 256
_CGROUP = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that a model takes while it works."""

    weights: int
    kv_cache: int
    compute: int

    @property
    def total(self) -> int:
        return self.weights + self.kv_cache + self.compute


def estimate(gguf: GGUF, n_ctx: int, sequences: int = 1) -> MemoryEstimate:
    """What `gguf` takes with a context of `n_ctx` tokens for each of `sequences`, and flash
    attention off.

    The compute buffer is the attention scores of one batch (`n_head` x rows x n_ctx, and the
    mask) besides its widest layers; measured against llama.cpp it is never too small and at most
    a few tens of megabytes too large.
    """
    n_ctx = min(n_ctx, gguf.n_ctx_train or n_ctx) + _SPARE_CELLS
    n_head = max(gguf.per_layer("attention.head_count", 1), default=1)
    head_dim = gguf.n_embd // max(n_head, 1)
    key_and_value = gguf.number("attention.key_length", head_dim) + gguf.number(
        "attention.value_length", head_dim
    )
    n_head_kv = sum(gguf.per_layer("attention.head_count_kv", n_head))
    n_ff = max(gguf.per_layer("feed_forward_length", 4 * gguf.n_embd), default=0)
    widths = (n_head + 1) * n_ctx + 2 * n_ff + 6 * gguf.n_embd
    return MemoryEstimate(
        weights=gguf.file_size + _second_embedding(gguf),
        kv_cache=sequences * n_head_kv * key_and_value * n_ctx * _CACHE_BYTES,
        compute=widths * _BATCH_ROWS * _COMPUTE_BYTES,
    )


def require_memory(target: GGUF, draft: GGUF | None, n_ctx: int, sequences: int = 1) -> None:
    """Raises MemoryShortageError, with all sizes, where the pair needs more than is available."""
    available = available_memory()
    needs = [
        (gguf, estimate(gguf, n_ctx, sequences)) for gguf in (target, draft) if gguf is not None
    ]
    total = sum(need.total for _, need in needs)
    if total <= available:
        return
    each = " and ".join(
        f"{gguf.path.name} needs {readable_size(need.total)} "
        f"({readable_size(need.weights)} of weights)"
        for gguf, need in needs
    )
    raise MemoryShortageError(
        f"not enough memory: {each}, together {readable_size(total)}, and "
        f"{readable_size(available)} are available; take a smaller model"
        + (", draft by lookup," if draft else "")
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


def _second_embedding(gguf: GGUF) -> int:
    """A model without an output matrix uses its embedding as one, and llama.cpp repacks a copy."""
    tensors = {tensor.name: tensor.nbytes or 0 for tensor in gguf.tensors}
    return 0 if "output.weight" in tensors else tensors.get("token_embd.weight", 0)
