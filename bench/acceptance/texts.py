"""The target's answers to the frozen prompts: what the tables of drafters and rules are made on."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.suite import first_of_each_category, load_suite, shipped_file
from specchat.config import locations
from specchat.models.ensure import ensure_model
from specchat.models.growing_file import sha256_of
from specchat.models.registry import load_registry
from specengine.chat.chat_template import Turn, encode_chat
from specengine.core.events import Finished
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from specengine.sampling import SamplingParams


class Text(BaseModel):
    """A prompt and the target's answer to it, as token ids."""

    model_config = ConfigDict(frozen=True)

    id: str
    category: str
    key: str
    """Hash of all that the answer depends on: target, settings, prompt."""
    prompt: list[int]
    tokens: list[int]


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="qwen2.5-coder-1.5b", help="registry name or GGUF file")
    parser.add_argument("--system", help="system message, where the template's own is not wanted")
    parser.add_argument("--prompts", type=Path, default=shipped_file("prompts.jsonl"))
    parser.add_argument("--categories", help="only prompts of these, separated by commas")
    parser.add_argument("--limit", type=_positive, default=3, help="prompts of each category")
    parser.add_argument("--max-tokens", type=_positive, default=200)
    parser.add_argument("--texts", type=Path, help="keeps the target's answers for the next run")


def model_file(name: str) -> Path:
    """The file of a model by registry name or path, fetched where need be."""
    return ensure_model(load_registry(locations.registry_file()).resolve(name))


def target_texts(
    target: Pair, options: argparse.Namespace, sampling: SamplingParams
) -> Iterator[Text]:
    """Answers to the first turn of `options.limit` prompts of each category.

    Raises BenchmarkError for files that cannot be read or written, and unknown categories.
    """
    wanted = options.categories.split(",") if options.categories else ()
    items = load_suite(options.prompts, wanted)
    kept: Path | None = options.texts
    known = {} if kept is None else {text.key: text for text in _read(kept)}
    file = "" if kept is None else sha256_of(target.files[0])
    for item in first_of_each_category(items, options.limit):
        turns = [] if options.system is None else [Turn("system", options.system)]
        turns.append(Turn("user", item.turns[0]))
        prompt = encode_chat(target.chat_template, turns, target.vocab)
        settings = [file, sampling.model_dump(mode="json"), options.max_tokens, prompt]
        key = sha256(json.dumps(settings).encode()).hexdigest()
        text = known.get(key)
        if text is None:
            tokens = _answer(target, prompt, sampling, options.max_tokens)
            print(f"{item.id}: {len(tokens)} tokens", file=sys.stderr)
            text = Text(id=item.id, category=item.category, key=key, prompt=prompt, tokens=tokens)
            if kept is not None:
                _append(kept, text)
        yield text


def categories(texts: Sequence[Text]) -> list[str]:
    """The categories of `texts`, in their order."""
    return list(dict.fromkeys(text.category for text in texts))


def _read(file: Path) -> Iterator[Text]:
    if not file.exists():
        return
    try:
        for line in filter(None, file.read_text(encoding="utf-8").split("\n")):
            yield Text.model_validate_json(line)
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"{file} is not what an earlier run kept: delete it") from error


def _append(file: Path, text: Text) -> None:
    try:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(text.model_dump_json() + "\n")
    except OSError as error:
        raise BenchmarkError(f"{file} cannot be written: {error.strerror or error}") from error


def _answer(
    target: Pair, prompt: Sequence[int], sampling: SamplingParams, max_tokens: int
) -> list[int]:
    *_, finished = target.answer(
        prompt, AnswerRequest(sampling, max_tokens=max_tokens, draft_length=7, reproducible=True)
    )
    assert isinstance(finished, Finished)
    return list(finished.tokens)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return int(text)
