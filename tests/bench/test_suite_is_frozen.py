"""The suite never changes: figures of different days are comparable only if the prompts are."""

import hashlib
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.parametrize(
    ("name", "sha256"),
    [
        ("prompts.jsonl", "a4638c96972f256916e88f95d49d572705bf78f4fa843f90df579509f8f6d5b4"),
        ("chats.jsonl", "252f6d9bb73e69b8c383fe57f0262df017875d7017d54d18fee1153ddd8a988c"),
    ],
)
def test_the_suite_is_the_frozen_one(name: str, sha256: str) -> None:
    # Read as text: a checkout on Windows may have other line ends.
    content = (BENCH / name).read_text(encoding="utf-8").encode()
    assert hashlib.sha256(content).hexdigest() == sha256
