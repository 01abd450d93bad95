"""Training data on disk: shards of conversations, each written whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import torch

TOP = 8  # of the target's next-token probabilities are kept


@dataclass(frozen=True, slots=True)
class Shard:
    """Conversations end to end: n tokens in s conversations. Row i belongs to token i."""

    tokens: torch.Tensor  # (n,) int32
    lengths: torch.Tensor  # (s,) int64
    answer_starts: torch.Tensor  # (s,) int64, from the start of the conversation
    features: torch.Tensor  # (n, 3 · n_embd) bfloat16
    top_ids: torch.Tensor  # (n, TOP) int32: the target's likeliest next tokens
    top_logprobs: torch.Tensor  # (n, TOP) float16: natural logarithms over the whole vocabulary

    def write(self, path: Path) -> None:
        partial = path.with_suffix(".partial")
        torch.save({f.name: getattr(self, f.name) for f in fields(self)}, partial)
        partial.replace(path)


def join(parts: list[Shard]) -> Shard:
    return Shard(*(torch.cat([getattr(p, f.name) for p in parts]) for f in fields(Shard)))


def read(path: Path) -> Shard:
    """By memory map: rows come from the disk when they are used."""
    return Shard(**torch.load(path, mmap=True))


def paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("shard-*.pt"))
