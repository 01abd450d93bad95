"""The questions of the training text."""

from __future__ import annotations

import json
import random
from pathlib import Path

from training.seeds import question

BENCH = Path(__file__).parents[2] / "bench"
TRIES = 3000


def drawn(seed: int) -> list[str]:
    rng = random.Random(seed)
    return [question(rng) for _ in range(TRIES)]


def test_no_question_that_heads_are_judged_by_is_trained_on() -> None:
    prompts = [
        json.loads(line)["prompt"] for line in (BENCH / "prompts.jsonl").open(encoding="utf8")
    ]
    chats = [json.loads(line)["turns"] for line in (BENCH / "chats.jsonl").open(encoding="utf8")]
    judged = {*prompts, *(turn for turns in chats for turn in turns)}
    assert judged
    assert not judged & set(drawn(1))


def test_questions_differ_and_have_no_gaps_left() -> None:
    questions = drawn(2)
    assert len(set(questions)) > 0.75 * TRIES
    for text in questions:
        prose = text.partition("```")[0]
        assert "{" not in prose
        assert "  " not in prose


def test_same_seed_gives_the_same_questions() -> None:
    assert drawn(3) == drawn(3)
