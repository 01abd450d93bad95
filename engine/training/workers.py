"""Several processes that train one head: each computes on conversations of its own.

Processes with one thread each meet once a step; threads would wait for each other at every
product, which on a busy machine takes most of their time.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import torch
from torch import distributed, multiprocessing

_PATIENCE = timedelta(days=2)  # a process may be stopped for a while


def start(work: Callable[..., None], arguments: tuple[Any, ...], n: int) -> None:
    """Run `work(rank, *arguments)` in `n` processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    multiprocessing.spawn(_joined, (port, n, work, arguments), nprocs=n)


def _joined(
    rank: int, port: int, n: int, work: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=n,
        timeout=_PATIENCE,
    )
    work(rank, *arguments)
    distributed.destroy_process_group()


def average(tensors: Iterable[torch.Tensor]) -> None:
    """Make each tensor the mean of what the processes hold of it."""
    held = list(tensors)
    joined = torch.cat([tensor.flatten() for tensor in held])
    distributed.all_reduce(joined)
    joined /= distributed.get_world_size()
    parts = joined.split([tensor.numel() for tensor in held])
    for tensor, part in zip(held, parts, strict=True):
        tensor.copy_(part.view_as(tensor))


def wait_for_all() -> None:
    distributed.barrier()
