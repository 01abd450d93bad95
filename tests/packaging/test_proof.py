"""The proof of an installed program believes nothing: each thing that is wrong is found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

proof = pytest.importorskip("proof", reason="it needs a pseudo-terminal, which Windows lacks")

# A specchat of a few lines: what it does is changed below.
FAKE = """
import json, os, sys
assert set(os.environ) <= {"HOME", "LC_CTYPE", "TERM"}, os.environ
if "ask" in sys.argv:
    speculation = {"accepted": 3}
    print(json.dumps({"text": "Paris", "finish_reason": "stop", "target": "m",
                      "speculation": speculation}))
elif "models" in sys.argv:
    print(json.dumps({"models": [{"name": "m", "sha256": "ab"}]}))
else:
    import tty
    tty.setraw(0)
    print("\\x1b[1;31mAsk\\x1b[0m anything", flush=True)
    sys.exit(0 if os.read(0, 1) == b"\\x11" else 1)
"""


def command(tmp_path: Path, *changes: tuple[str, str]) -> list[str]:
    text = FAKE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    script = tmp_path / "fake.py"
    script.write_text(text)
    return [sys.executable, str(script)]


def test_a_program_that_works_is_believed(tmp_path: Path) -> None:
    assert proof.prove(command(tmp_path)) == proof.Proof("m", "ab", "Paris", 3)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"accepted": 3', '"accepted": 0', "no draft token"),
        ('"text": "Paris"', '"text": " "', "answers ' '"),
        ('"stop"', '"error"', "error"),
        ("if ", "sys.exit('no library')\nif ", "exits with 1: no library"),
        ("tty.setraw(0)", "sys.exit('no terminal')", "shows no chat but: no terminal"),
        ("sys.exit(0 if", "sys.exit(7 if", "the chat ends with 7"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(proof.ProofError, match=words):
        proof.prove(command(tmp_path, (old, new)))
