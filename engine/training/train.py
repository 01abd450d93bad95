"""Trains a head on what `generate` wrote; started again, it goes on from the last checkpoint.

python -m training.train TARGET.gguf FOLDER HEAD.pt --hours 2
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch

from training import batches, shards, start, target, vocabulary, workers
from training.acceptance import greedy_answers, tokens_per_pass
from training.batches import Batch
from training.head import Head, HeadShape
from training.loss import chain_loss

CHAIN_STEPS = 3
WARM_UP = 10  # steps
MUON_RATE = 3.0  # times the rate of AdamW: the matrices that start at random have far to go
CHECKPOINT = 50  # steps
VALIDATION = 100  # steps
VALIDATION_BATCHES = 4


class Training:
    """A head with its optimizers; one object, so that it is saved and restored as one."""

    def __init__(self, head: Head, draft_vocabulary: torch.Tensor, rate: float) -> None:
        self.head = head
        self.vocabulary = draft_vocabulary
        self.step = 0
        self.seconds = 0.0  # spent so far
        inner = [p for name, p in head.named_parameters() if p.ndim == 2 and name[:6] != "output"]
        others = [p for p in head.parameters() if all(p is not q for q in inner)]
        self._rate = rate
        self._optimizers: list[torch.optim.Optimizer] = [
            torch.optim.Muon(inner, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.95), weight_decay=0.0),
        ]

    def update(self, loss: torch.Tensor, hours: float) -> float:
        """One step of all processes, at a rate that ends near 0 after `hours`; the mean loss."""
        loss.backward()
        shared = torch.tensor([float(loss.detach()), self.seconds])
        workers.average([shared, *(p.grad for p in self.head.parameters())])
        self.seconds = float(shared[1])  # so that all of them end at the same step
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        progress = min(1.0, self.seconds / 3600 / hours)
        warm = min(1.0, (self.step + 1) / WARM_UP)
        rate = self._rate * warm * (0.02 + 0.49 * (1 + math.cos(math.pi * progress)))
        for optimizer, factor in zip(self._optimizers, (MUON_RATE, 1.0), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = factor * rate
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        return float(shared[0])

    def save(self, path: Path) -> None:
        partial = path.with_suffix(".partial")
        state = {
            "shape": self.head.shape,
            "head": self.head.state_dict(),
            "vocabulary": self.vocabulary,
            "step": self.step,
            "seconds": self.seconds,
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
        }
        torch.save(state, partial)
        partial.replace(path)

    @classmethod
    def load(cls, path: Path, rate: float) -> Training:
        state = _load(path)
        training = cls(_head(state), state["vocabulary"], rate)
        training.step, training.seconds = state["step"], state["seconds"]
        for optimizer, saved in zip(training._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        return training


def load_head(path: Path) -> tuple[Head, torch.Tensor]:
    """The head of a checkpoint, and the target's id of each of its draft ids."""
    state = _load(path)
    return _head(state), state["vocabulary"]


def _load(path: Path) -> dict[str, Any]:
    with torch.serialization.safe_globals([HeadShape]):
        state: dict[str, Any] = torch.load(path)
    return state


def _head(state: dict[str, Any]) -> Head:
    head = Head(state["shape"])
    head.load_state_dict(state["head"])
    return head


def begin(options: argparse.Namespace) -> Training:
    """A new head, its vocabulary chosen by the shards that are there now."""
    paths = shards.paths(options.folder)
    n_vocab = len(target.embeddings(options.target))
    expected = torch.zeros(n_vocab, dtype=torch.float64)
    for path in paths:
        shard = shards.read(path)
        expected.index_add_(
            0, shard.top_ids.flatten().long(), shard.top_logprobs.flatten().double().exp()
        )
    chosen = vocabulary.choose(expected.numpy(), options.draft_vocabulary)
    draft_vocabulary = torch.from_numpy(chosen)
    covered = float(expected[draft_vocabulary].sum() / expected.sum())
    print(f"the draft vocabulary covers {covered:.4f} of {float(expected.sum()):.0f} tokens")
    sample = next(batches.epoch(paths, 1, seed=0))
    head = start.new_head(options.target, draft_vocabulary, sample)
    return Training(head, draft_vocabulary, options.rate)


def endless(folder: Path, batch_size: int, step: int) -> Iterator[Batch]:
    """Epoch after epoch; each takes the shards that are there when it begins."""
    for number in count(step):
        yield from batches.epoch(shards.paths(folder), batch_size, seed=number)


def work(rank: int, options: argparse.Namespace) -> None:
    """What each process does; the first one keeps the checkpoints."""
    torch.manual_seed(0)
    if rank == 0 and not options.head.exists():
        begin(options).save(options.head)
    workers.wait_for_all()
    training = Training.load(options.head, options.rate)
    embeddings = target.embeddings(options.target)
    draft_ids = torch.from_numpy(vocabulary.inverse(training.vocabulary.numpy(), len(embeddings)))
    supply = endless(options.folder, options.batch, training.step)
    mean, last = 0.0, time.monotonic()
    for batch in islice(supply, rank, None, options.workers):
        with torch.autocast("cpu", torch.bfloat16):
            loss = chain_loss(training.head, batch, embeddings, draft_ids, CHAIN_STEPS)
        reached = training.update(loss, options.hours)
        mean = 0.95 * mean + 0.05 * reached if mean else reached
        ended = training.seconds >= 3600 * options.hours
        if rank == 0:
            report(training, mean, ended, options, embeddings)
        if ended:
            break
        now = time.monotonic()
        training.seconds, last = training.seconds + now - last, now


def report(
    training: Training,
    loss: float,
    ended: bool,
    options: argparse.Namespace,
    embeddings: torch.Tensor,
) -> None:
    step = training.step
    if step % 10 == 0:
        print(f"step {step}, {training.seconds:.0f} s: loss {loss:.3f}", flush=True)
    if step % CHECKPOINT == 0 or ended:
        training.save(options.head)
    if step % VALIDATION == 0 or ended:
        reached = validate(training, options, embeddings)
        print(f"step {step}: {reached:.3f} tokens a pass", flush=True)


def validate(training: Training, options: argparse.Namespace, embeddings: torch.Tensor) -> float:
    """Tokens a pass at k = 4 on greedy answers that are not trained on."""
    held_out = batches.epoch(shards.paths(options.folder), 16, seed=0, held_out=True)
    some = islice(held_out, VALIDATION_BATCHES)
    with torch.autocast("cpu", torch.bfloat16):
        return tokens_per_pass(greedy_answers(training.head, some, embeddings, training.vocabulary))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("folder", type=Path, help="with the shards")
    parser.add_argument("head", type=Path, help="the checkpoint")
    parser.add_argument("--hours", type=float, default=2, help="in all, pauses not counted")
    parser.add_argument("--batch", type=int, default=4, help="conversations of a process")
    parser.add_argument("--rate", type=float, default=1.5e-3, help="learning rate at its peak")
    parser.add_argument("--draft-vocabulary", type=int, default=8192)
    parser.add_argument("--workers", type=int, default=2, help="processes")
    options = parser.parse_args()
    workers.start(work, (options,), options.workers)


if __name__ == "__main__":
    main()
