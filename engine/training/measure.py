"""How many tokens a pass a head gives on prompts that it was not trained on.

    python -m training.measure TARGET.gguf HEAD.pt PROMPTS.jsonl ANSWERS.pt

The target answers each prompt greedily, after an empty system message; the answers are kept in
ANSWERS.pt for the next head. A round drafts four tokens.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import torch

from specengine.llama.model import LlamaModel
from training import shards, target
from training.acceptance import greedy_answers, tokens_per_pass
from training.batches import collate, split
from training.conversations import Conversation
from training.generate import markup
from training.shards import Shard
from training.target import Target
from training.train import load_head
from training.writing import Writer


def answers(options: argparse.Namespace, prompts: list[str]) -> Shard:
    """The conversations in the order of `prompts`."""
    with LlamaModel(options.target, vocab_only=True) as model:
        form = markup(model.vocab, "")
        questions = [model.vocab.tokenize(prompt) for prompt in prompts]
    frame = len(form.before_question) + len(form.before_answer) + options.max_tokens
    conversations = [
        Conversation(form, 0.0, frame + len(question), question) for question in questions
    ]
    length = max(conversation.limit for conversation in conversations)
    written = Target(options.target, options.layers, n_sequences=len(prompts), n_ctx=length)
    writer = Writer(written, iter(conversations), torch.Generator())
    rows: dict[int, Shard] = {}
    while not writer.idle:
        rows |= {id(conversation): shard for conversation, shard in writer.step()}
    return shards.join([rows[id(conversation)] for conversation in conversations])


def run(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    entries = [json.loads(line) for line in options.prompts.open(encoding="utf-8")]
    if not options.answers.exists():
        answers(options, [entry["prompt"] for entry in entries]).write(options.answers)
    embeddings = target.embeddings(options.target)
    head, vocabulary = load_head(options.head)
    counts: dict[str, list[list[int]]] = defaultdict(list)
    for entry, part in zip(entries, split(shards.read(options.answers)), strict=True):
        batch = collate([part])
        counts[entry["category"]] += greedy_answers(head, [batch], embeddings, vocabulary)
    counts["all"] = [answer for listed in counts.values() for answer in listed]
    for category, listed in counts.items():
        print(f"{category:10} {tokens_per_pass(listed):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("head", type=Path, help="the checkpoint")
    parser.add_argument("prompts", type=Path)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--max-tokens", type=int, default=200, help="of an answer")
    parser.add_argument("--layers", type=int, nargs=3, default=(2, 15, 27))
    options = parser.parse_args()
    options.layers = tuple(options.layers)
    run(options)


if __name__ == "__main__":
    main()
