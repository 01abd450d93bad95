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
    opened = [shards.read(path) for path in paths]
    lengths = [shard.lengths.tolist() for shard in opened]
    order = [
        (i, j)
        for i, listed in enumerate(lengths)
        for j in range(len(listed))
        if (j % _HELD_OUT == 0) == held_out
    ]
    rng = random.Random(seed)  # noqa: S311
    rng.shuffle(order)
    starts = [torch.cat((torch.zeros(1).long(), s.lengths.cumsum(0))).tolist() for s in opened]
    chosen: list[list[tuple[int, int]]] = []
    for at in range(0, len(order), _BUCKET * batch_size):
        bucket = sorted(order[at : at + _BUCKET * batch_size], key=lambda ij: lengths[ij[0]][ij[1]])
        groups = [bucket[i : i + batch_size] for i in range(0, len(bucket), batch_size)]
        rng.shuffle(groups)
        chosen += groups
    for group in chosen:
        yield collate([_part(opened[i], starts[i][j], starts[i][j + 1], j) for i, j in group])


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


def _part(shard: Shard, start: int, end: int, number: int) -> Shard:
    return Shard(
        shard.tokens[start:end],
        shard.lengths[number : number + 1],
        shard.answer_starts[number : number + 1],
        shard.features[start:end],
        shard.top_ids[start:end],
        shard.top_logprobs[start:end],
    )
