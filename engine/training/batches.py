"""Conversations as padded batches, in an order that a seed fixes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from training import shards
from training.shards import Shard

_BUCKET = 16  # batches among which conversations are sorted by length, so that little is padding
_HELD_OUT = 16  # every so manieth conversation of a shard is never trained on


@dataclass(frozen=True, slots=True)
class Batch:
    """`b` conversations, padded at the end to n tokens."""

    tokens: torch.Tensor  # (b, n) int64
    features: torch.Tensor  # (b, n, 3 · n_embd) bfloat16
    top_ids: torch.Tensor  # (b, n, TOP) int64
    top_logprobs: torch.Tensor  # (b, n, TOP) float32; −inf in the padding
    answer_starts: torch.Tensor  # (b,) int64
    lengths: torch.Tensor  # (b,) int64


def epoch(
    paths: Sequence[Path], batch_size: int, seed: int, *, held_out: bool = False
) -> Iterator[Batch]:
    """Each conversation of `paths` once: those that are trained on, or those that are held out."""
    parts = [
        part
        for path in paths
        for number, part in enumerate(split(shards.read(path)))
        if (number % _HELD_OUT == 0) == held_out
    ]
    rng = random.Random(seed)  # noqa: S311
    rng.shuffle(parts)
    for at in range(0, len(parts), _BUCKET * batch_size):
        bucket = sorted(parts[at : at + _BUCKET * batch_size], key=lambda part: len(part.tokens))
        groups = [bucket[i : i + batch_size] for i in range(0, len(bucket), batch_size)]
        rng.shuffle(groups)
        yield from map(collate, groups)


def split(shard: Shard) -> list[Shard]:
    """Its conversations, each as a shard of its own: views."""
    lengths = shard.lengths.tolist()
    rows = (shard.tokens, shard.features, shard.top_ids, shard.top_logprobs)
    parts = zip(*(each.split(lengths) for each in rows), strict=True)
    alone = zip(shard.lengths.split(1), shard.answer_starts.split(1), strict=True)
    return [
        Shard(tokens, length, answer_start, features, ids, logprobs)
        for (tokens, features, ids, logprobs), (length, answer_start) in zip(
            parts, alone, strict=True
        )
    ]


def collate(parts: Sequence[Shard]) -> Batch:
    """One conversation of each of `parts`."""

    def padded(rows: list[torch.Tensor], fill: float = 0) -> torch.Tensor:
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=fill)

    return Batch(
        padded([part.tokens.long() for part in parts]),
        padded([part.features for part in parts]),
        padded([part.top_ids.long() for part in parts]),
        padded([part.top_logprobs.float() for part in parts], -torch.inf),
        torch.cat([part.answer_starts for part in parts]),
        torch.cat([part.lengths for part in parts]),
    )
