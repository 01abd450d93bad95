"""The texts that drafters and rules are counted on: an answer is kept for what it was made with."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, cast

import pytest

from acceptance import texts
from acceptance.texts import Text, add_text_arguments, target_texts
from specchat.benchmark.errors import BenchmarkError
from specengine.load.pair import Pair
from specengine.sampling import SamplingParams
from support.fakes import FakeVocab

GREEDY = SamplingParams(temperature=0)


class Target:
    """A target that counts its answers, which are that number."""

    vocab = FakeVocab(26)
    chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"

    def __init__(self, file: Path, weights: bytes) -> None:
        file.write_bytes(weights)
        self.files = [file]
        self.answers = 0


@pytest.fixture(autouse=True)
def _counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(target: Any, *_: Any) -> list[int]:
        target.answers += 1
        return [target.answers]

    monkeypatch.setattr(texts, "_answer", answer)


def ask(target: Target, folder: Path, *flags: str, sampling: SamplingParams = GREEDY) -> list[Text]:
    prompts = folder / "prompts.jsonl"
    lines = [
        {"id": "a-1", "category": "a", "prompt": "abc"},
        {"id": "b-1", "category": "b", "turns": ["de", "fg"]},
    ]
    prompts.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    parser = ArgumentParser()
    add_text_arguments(parser)
    options = parser.parse_args(["--prompts", str(prompts), *flags])
    return list(target_texts(cast(Pair, target), options, sampling))


def test_of_a_chat_the_first_turn_is_answered(tmp_path: Path) -> None:
    found = ask(Target(tmp_path / "t.gguf", b"t"), tmp_path)
    assert [(text.id, text.prompt) for text in found] == [("a-1", [0, 1, 2]), ("b-1", [3, 4])]


def test_an_answer_is_kept_for_its_target_settings_and_prompt(tmp_path: Path) -> None:
    keep = ("--texts", str(tmp_path / "texts.jsonl"))
    target = Target(tmp_path / "t.gguf", b"t")
    first = ask(target, tmp_path, *keep)
    assert ask(target, tmp_path, *keep) == first
    assert target.answers == 2
    ask(target, tmp_path, *keep, "--max-tokens", "9")
    ask(target, tmp_path, *keep, "--system", "x")
    ask(target, tmp_path, *keep, sampling=SamplingParams(temperature=1))
    assert target.answers == 8
    other = Target(tmp_path / "other.gguf", b"other")
    ask(other, tmp_path, *keep)
    assert other.answers == 2


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    target = Target(tmp_path / "t.gguf", b"t")
    with pytest.raises(BenchmarkError, match="no prompt has the category 'nonsense'"):
        ask(target, tmp_path, "--categories", "nonsense")
    with pytest.raises(BenchmarkError, match=r"none\.jsonl cannot be read"):
        ask(target, tmp_path, "--prompts", str(tmp_path / "none.jsonl"))
    old = tmp_path / "old.jsonl"
    old.write_text('{"id": "a-1", "category": "a", "prompt": [1], "tokens": [2]}\n')
    with pytest.raises(BenchmarkError, match=r"old\.jsonl is not what an earlier run kept"):
        ask(target, tmp_path, "--texts", str(old))
