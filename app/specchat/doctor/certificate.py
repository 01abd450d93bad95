"""The certificate of `specchat verify`: what was checked, of which files, on which machine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict

from specchat.doctor.machine import Machine, ModelFile, describe_machine, describe_model
from specchat.version import __version__
from specengine.chat.chat_template import Turn, encode_chat
from specengine.checks.verification import Check
from specengine.llama.threads import default_threads
from specengine.load.pair import Pair

# An answer that repeats, one that reasons, one that is free: drafts are accepted, rejected, or
# missing.
QUESTIONS = (
    "Write a Python function that reverses a list, then the same function with type hints.",
    "Which is larger, 9.11 or 9.9? Explain.",
    "Tell me how rain comes about, for a child.",
)


class Certificate(BaseModel):
    """As `specchat verify --json` prints it."""

    model_config = ConfigDict(frozen=True)

    version: str = __version__
    made_at: datetime
    machine: Machine
    target: ModelFile
    draft: ModelFile | None
    seed: int
    max_tokens: int
    questions: tuple[str, ...]
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


def certify(
    pair: Pair,
    checks: Sequence[Check],
    *,
    seed: int,
    max_tokens: int,
    questions: tuple[str, ...],
    threads: int | None,
) -> Certificate:
    """Put `checks` on record. Reads the model files whole, for their hashes."""
    target, *rest = (describe_model(file, {}) for file in pair.files)
    return Certificate(
        made_at=datetime.now(UTC),
        machine=describe_machine(threads or default_threads()),
        target=target,
        draft=rest[0] if rest else None,
        seed=seed,
        max_tokens=max_tokens,
        questions=questions,
        checks=tuple(checks),
    )


def encode_question(pair: Pair, question: str, system: str | None) -> tuple[int, ...]:
    """As a chat where the target has a template, else as plain text."""
    if pair.chat_template is None:
        return tuple(pair.vocab.tokenize(question, bos=True))
    turns = [] if system is None else [Turn("system", system)]
    return tuple(encode_chat(pair.chat_template, [*turns, Turn("user", question)], pair.vocab))
