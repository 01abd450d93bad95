"""Writes training data: text that the target itself makes, with its features.

    python -m training.generate TARGET.gguf FOLDER --worker 0

Runs until stopped, or until `--tokens`; started again it goes on after the last shard. Several
workers, each with one thread and a number of its own, use a busy machine better than one.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from specengine.core.vocab import Vocab
from specengine.llama.model import LlamaModel
from training import shards
from training.conversations import Conversation, Markup
from training.seeds import question
from training.shards import Shard
from training.target import Target
from training.writing import Writer

SHARD_TOKENS = 16_384
OWN_QUESTION = 0.6  # share of conversations whose question the target writes
WITH_DEFAULT_SYSTEM = 0.1  # share with the system message of the target's own template
DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
ANSWER_TEMPERATURES = (0.0, 0.0, 0.0, 0.3, 0.8)


def conversations(vocab: Vocab, rng: random.Random, limit: int) -> Iterator[Conversation]:
    """An endless supply of new ones, each of at most `limit` tokens."""
    plain, default = markup(vocab, ""), markup(vocab, DEFAULT_SYSTEM)
    while True:
        text = None if rng.random() < OWN_QUESTION else vocab.tokenize(question(rng))
        yield Conversation(
            default if rng.random() < WITH_DEFAULT_SYSTEM else plain,
            rng.choice(ANSWER_TEMPERATURES),
            limit,
            text,
        )


def markup(vocab: Vocab, system: str) -> Markup:
    """ChatML around a question after the message `system`."""

    def ids(text: str) -> tuple[int, ...]:
        return tuple(vocab.tokenize(text, special=True))

    return Markup(
        before_question=ids(f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n"),
        before_answer=ids("<|im_end|>\n<|im_start|>assistant\n"),
        end=ids("<|im_end|>")[0],
    )


def run(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    done = len(list(options.folder.glob(f"shard-{options.worker}-*.pt")))
    seed = options.worker * 1_000_003 + done
    generator = torch.Generator().manual_seed(seed)
    with LlamaModel(options.target, vocab_only=True) as model:
        supply = conversations(model.vocab, random.Random(seed), options.length)  # noqa: S311
        target = Target(
            options.target, options.layers, n_sequences=options.sequences, n_ctx=options.length
        )
        writer = Writer(target, supply, generator)
        finished: list[Shard] = []
        total, started = 0, time.monotonic()
        while total < options.tokens:
            finished += [shard for _, shard in writer.step()]
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
