"""The target writes many conversations at once; what every pass gives is kept."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from training.conversations import Conversation
from training.shards import TOP, Shard
from training.target import Target

CANDIDATES = 40  # a token is drawn from so many of the likeliest


class Recorder:
    """What the passes gave for each sequence, until its conversation is finished."""

    def __init__(self, n_sequences: int, n_ctx: int, n_features: int) -> None:
        self._features = torch.empty(n_sequences, n_ctx, n_features, dtype=torch.bfloat16)
        self._ids = torch.empty(n_sequences, n_ctx, TOP, dtype=torch.int32)
        self._logprobs = torch.empty(n_sequences, n_ctx, TOP, dtype=torch.float16)
        self._rows = torch.arange(n_sequences)

    def record(
        self,
        positions: torch.Tensor,
        features: torch.Tensor,
        ids: torch.Tensor,
        logprobs: torch.Tensor,
    ) -> None:
        self._features[self._rows, positions] = features
        self._ids[self._rows, positions] = ids[:, :TOP].int()
        self._logprobs[self._rows, positions] = logprobs[:, :TOP].half()

    def take(self, sequence: int, conversation: Conversation) -> Shard:
        """The rows of a finished conversation; its last token was never evaluated."""
        n = conversation.position
        assert conversation.answer_start is not None
        return Shard(
            torch.tensor(conversation.tokens[:n], dtype=torch.int32),
            torch.tensor([n]),
            torch.tensor([conversation.answer_start]),
            self._features[sequence, :n].clone(),
            self._ids[sequence, :n].clone(),
            self._logprobs[sequence, :n].clone(),
        )


def draw(
    logprobs: torch.Tensor, temperatures: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    """One column of each row of `logprobs` (descending), by the Gumbel maximum; (rows,)."""
    noise = -torch.empty_like(logprobs).exponential_(generator=generator).log()
    # At temperature 0 the noise vanishes beside the first column's lead.
    return (logprobs + noise * temperatures[:, None]).argmax(dim=-1)


class Writer:
    """One conversation in each of the target's sequences; a finished one makes room for another."""

    def __init__(
        self, target: Target, supply: Iterator[Conversation], generator: torch.Generator
    ) -> None:
        self._target = target
        self._supply = supply
        self._generator = generator
        n, n_ctx = target.n_sequences, target.n_ctx
        self._recorder = Recorder(n, n_ctx, len(target.layers) * target.shape.n_embd)
        self._running = [next(supply, None) for _ in range(n)]

    @property
    def idle(self) -> bool:
        return all(conversation is None for conversation in self._running)

    def step(self) -> list[tuple[Conversation, Shard]]:
        """One pass; the conversations that it finished, with their rows."""
        # A sequence without a conversation evaluates some token at its beginning.
        positions = torch.tensor([c.position if c else 0 for c in self._running])
        tokens = torch.tensor([c.token if c else 0 for c in self._running])
        temperatures = torch.tensor([c.temperature if c else 0.0 for c in self._running])
        step = self._target.step(tokens, positions)
        top = step.logits.topk(CANDIDATES, dim=-1)
        logprobs = top.values - step.logits.logsumexp(dim=-1, keepdim=True)
        self._recorder.record(positions, step.features, top.indices, logprobs)
        columns = draw(logprobs, temperatures, self._generator)
        drawn = top.indices.gather(1, columns[:, None])[:, 0].tolist()
        finished = []
        for sequence, conversation in enumerate(self._running):
            if conversation is None:
                continue
            conversation.advance(drawn[sequence])
            if conversation.finished:
                finished.append((conversation, self._recorder.take(sequence, conversation)))
                self._running[sequence] = next(self._supply, None)
        return finished
