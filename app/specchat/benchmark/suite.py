"""The prompts that are measured: the frozen suite, our chats, or a file of one's own."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from specchat.benchmark.errors import BenchmarkError
from specchat.errors import first_fault

SUITE = ("prompts.jsonl", "chats.jsonl")


class Item(BaseModel):
    """What a person says, turn by turn; every turn is answered, and every answer measured."""

    model_config = ConfigDict(frozen=True)

    id: str
    category: str
    turns: tuple[str, ...]


class _Line(BaseModel):
    """A line of a suite: one prompt, or the turns of a chat."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1)
    category: str = Field(min_length=1)
    prompt: str | None = None
    turns: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.item.turns or not all(turn.strip() for turn in self.item.turns):
            raise ValueError("there is no prompt")
        return self

    @property
    def item(self) -> Item:
        turns = self.turns if self.prompt is None else (self.prompt, *self.turns)
        return Item(id=self.id, category=self.category, turns=turns)


def load_suite(file: Path | None = None, categories: Sequence[str] = ()) -> tuple[Item, ...]:
    """The items of `file` (default: the suite that comes with the program), in its order.

    Raises BenchmarkError, naming file and line, or the category that there is none of.
    """
    files = [shipped_file(name) for name in SUITE] if file is None else [file]
    items = [item for path in files for item in _read(path)]
    known = list(dict.fromkeys(item.category for item in items))
    for category in categories:
        if category not in known:
            near = difflib.get_close_matches(category, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise BenchmarkError(f"no prompt has the category {category!r}: {hint}")
    return tuple(item for item in items if not categories or item.category in categories)


def first_of_each_category(items: Iterable[Item], n: int = 1) -> tuple[Item, ...]:
    """The first `n` items of each category, in the order of `items`."""
    seen: Counter[str] = Counter()
    first = []
    for item in items:
        seen[item.category] += 1
        if seen[item.category] <= n:
            first.append(item)
    return tuple(first)


def shipped_file(name: str) -> Path:
    """A file of the suite as the wheel carries it, or in a checkout the one in `bench/`."""
    packaged = Path(__file__).with_name(name)
    return packaged if packaged.exists() else Path(__file__).parents[3] / "bench" / name


def _read(path: Path) -> Iterator[Item]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # not at U+2028, as JSON has it
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BenchmarkError(f"{path} cannot be read: {reason}") from error
    seen: set[str] = set()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            item = _Line.model_validate_json(line).item
        except ValidationError as error:
            raise BenchmarkError(f"{path}, line {number}: {first_fault(error)}") from error
        if item.id in seen:
            raise BenchmarkError(f"{path}, line {number}: there is another {item.id!r}")
        seen.add(item.id)
        yield item
    if not seen:
        raise BenchmarkError(f"{path} has no prompts")
