"""Writes training data: text that the target itself makes, with its features.

    python -m training.generate TARGET.gguf FOLDER --worker 0

Runs until stopped, or until `--tokens`; started again it goes on after the last shard. Several
workers, each with one thread and a number of its own, use a busy machine better than one.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import torch

from specengine.llama.model import LlamaModel
from specengine.vocab import Vocab
from training import shards
from training.conversations import Conversation, Markup
from training.seeds import question
from training.shards import TOP, Shard
from training.target import Target

SHARD_TOKENS = 16_384
CANDIDATES = 40  # a token is drawn from so many of the likeliest
OWN_QUESTION = 0.4  # share of conversations whose question the target writes
DEFAULT_SYSTEM = 0.1  # share with the system message of the target's own template
ANSWER_TEMPERATURES = (0.0, 0.0, 0.0, 0.3, 0.8)


class Conversations:
    """An endless supply of new ones."""

    def __init__(self, vocab: Vocab, rng: random.Random, limit: int) -> None:
        self._vocab = vocab
        self._rng = rng
        self._limit = limit
        system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
        self._plain, self._default = self._markup(""), self._markup(system)

    def new(self) -> Conversation:
        rng = self._rng
        text = None if rng.random() < OWN_QUESTION else self._vocab.tokenize(question(rng))
        return Conversation(
            self._default if rng.random() < DEFAULT_SYSTEM else self._plain,
            rng.choice(ANSWER_TEMPERATURES),
            self._limit,
            text,
        )

    def _markup(self, system: str) -> Markup:
        def ids(text: str) -> tuple[int, ...]:
            return tuple(self._vocab.tokenize(text, special=True))

        return Markup(
            before_question=ids(f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n"),
            before_answer=ids("<|im_end|>\n<|im_start|>assistant\n"),
            end=ids("<|im_end|>")[0],
        )


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


def run(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    done = len(list(options.folder.glob(f"shard-{options.worker}-*.pt")))
    seed = options.worker * 1_000_003 + done
    generator = torch.Generator().manual_seed(seed)
    with LlamaModel(options.target, vocab_only=True) as model:
        supply = Conversations(model.vocab, random.Random(seed), options.length)  # noqa: S311
        n = options.sequences
        target = Target(options.target, options.layers, n_sequences=n, n_ctx=options.length)
        recorder = Recorder(n, options.length, 3 * target.shape.n_embd)
        running = [supply.new() for _ in range(n)]
        finished: list[Shard] = []
        total, started = 0, time.monotonic()
        while total < options.tokens:
            positions = torch.tensor([c.position for c in running])
            step = target.step(torch.tensor([c.token for c in running]), positions)
            top = step.logits.topk(CANDIDATES, dim=-1)
            logprobs = top.values - step.logits.logsumexp(dim=-1, keepdim=True)
            recorder.record(positions, step.features, top.indices, logprobs)
            temperatures = torch.tensor([c.temperature for c in running])
            columns = draw(logprobs, temperatures, generator)
            drawn = top.indices.gather(1, columns[:, None])[:, 0].tolist()
            for sequence, token in enumerate(drawn):
                running[sequence].advance(token)
                if running[sequence].finished:
                    finished.append(recorder.take(sequence, running[sequence]))
                    running[sequence] = supply.new()
            if sum(len(part.tokens) for part in finished) >= SHARD_TOKENS:
                shard = shards.join(finished)
                shard.write(options.folder / f"shard-{options.worker}-{done:05}.pt")
                finished, done, total = [], done + 1, total + len(shard.tokens)
                rate = total / (time.monotonic() - started)
                print(f"{total} tokens, {rate:.0f} a second", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--worker", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=10_000_000)
    parser.add_argument("--sequences", type=int, default=128, help="in one pass")
    parser.add_argument("--length", type=int, default=384, help="tokens of a conversation, at most")
    parser.add_argument("--layers", type=int, nargs=3, default=(2, 15, 27))
    options = parser.parse_args()
    options.layers = tuple(options.layers)
    run(options)


if __name__ == "__main__":
    main()
