"""The target's answers to the frozen prompts: what the tables of drafters and rules are made on."""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from specchat import locations
from specchat.models.ensure import ensure_model
from specchat.models.registry import load_registry
from specengine.chat.chat_template import Turn, encode_chat
from specengine.events import Finished
from specengine.pair import Pair
from specengine.sampling import SamplingParams

PROMPTS = Path(__file__).parent / "prompts.jsonl"


@dataclass(frozen=True)
class Text:
    """A prompt and the target's answer to it, as token ids."""

    id: str
    category: str
    prompt: list[int]
    tokens: list[int]


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="qwen2.5-coder-1.5b", help="registry name or GGUF file")
    parser.add_argument("--system", help="system message, where the template's own is not wanted")
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--categories", help="only prompts of these, separated by commas")
    parser.add_argument("--limit", type=int, default=3, help="prompts of each category")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--texts", type=Path, help="keeps the target's answers for the next run")


def model_file(name: str) -> Path:
    """The file of a model by registry name or path, fetched where need be."""
    return ensure_model(load_registry(locations.registry_file()).resolve(name))


def target_texts(
    target: Pair, options: argparse.Namespace, sampling: SamplingParams
) -> Iterator[Text]:
    """Answers to `options.limit` prompts of each category."""
    known: dict[str, Text] = {}
    if options.texts is not None and options.texts.exists():
        lines = options.texts.read_text(encoding="utf-8").splitlines()
        known = {t.id: t for t in (Text(**json.loads(line)) for line in lines)}
    wanted = set(options.categories.split(",")) if options.categories else None
    taken: defaultdict[str, int] = defaultdict(int)
    for line in options.prompts.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if wanted is not None and entry["category"] not in wanted:
            continue
        taken[entry["category"]] += 1
        if taken[entry["category"]] > options.limit:
            continue
        text = known.get(entry["id"])
        if text is None:
            text = _answer(target, entry, options, sampling)
            if options.texts is not None:
                with options.texts.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(vars(text)) + "\n")
        yield text


def categories(texts: Sequence[Text]) -> list[str]:
    """The categories of `texts`, in their order."""
    return list(dict.fromkeys(text.category for text in texts))


def _answer(
    target: Pair, entry: dict[str, str], options: argparse.Namespace, sampling: SamplingParams
) -> Text:
    turns = [Turn("user", entry["prompt"])]
    if options.system is not None:
        turns.insert(0, Turn("system", options.system))
    prompt = encode_chat(target.chat_template, turns, target.vocab)
    *_, finished = target.answer(
        prompt, sampling, draft_length=7, max_tokens=options.max_tokens, reproducible=True
    )
    assert isinstance(finished, Finished)
    print(f"{entry['id']}: {len(finished.tokens)} tokens", file=sys.stderr)
    return Text(entry["id"], entry["category"], prompt, list(finished.tokens))
