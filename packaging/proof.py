"""Shows that an installed specchat works by itself: another folder, empty home and environment."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUESTION = "What is the capital of France?"
# An edit: most of the answer stands in the question, so looking it up there must pay.
EDIT = (
    "Rewrite this sentence with blue instead of red, and change nothing else: The red house stands "
    "beside the red barn, and the red gate leads from the red house to the road."
)
# One greedy answer whatever the machine does, and drafts whatever they cost there.
FIXED = ("--profile", "tiny", "--temperature", "0", "--max-tokens", "48", "--draft-length", "4")

PROMPT_BOX = "Ask anything"
QUIT = b"\x11"  # Ctrl+Q
TIMEOUT_S = 300.0

_ESCAPE = re.compile(rb"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")


class ProofError(Exception):
    """The program does not do what it must; the message says what it did instead."""


@dataclass(frozen=True)
class Proof:
    """What was shown: the model that answered, and how many draft tokens its edit took over."""

    model: str
    sha256: str
    answer: str
    accepted: int

    def __str__(self) -> str:
        return (
            f"answers with {self.model} (sha256 {self.sha256}): {self.answer!r}; "
            f"{self.accepted} draft tokens accepted in an edit; shows the chat"
        )


def prove(command: Sequence[str], model: Path | None = None) -> Proof:
    """Let `command`, an installed specchat, answer, edit and show its chat. Raises ProofError.

    `model` is a file to put into its empty models folder; without one it has to bring its own.
    """
    with tempfile.TemporaryDirectory(prefix="specchat proof ") as temporary:
        home = Path(temporary, "home")
        home.mkdir()
        environment = {"HOME": str(home)}
        if model is not None:
            folder = Path(temporary, "models")
            folder.mkdir()
            shutil.copy(model, folder)
            environment["SPECCHAT_MODELS_DIR"] = str(folder)
        answer = _answer(command, QUESTION, home, environment)
        accepted = _answer(command, EDIT, home, environment)["speculation"]["accepted"]
        if accepted < 1:
            raise ProofError(f"{command[0]}: no draft token was accepted in an edit")
        listed = json.loads(_run([*command, "models", "list", "--json"], home, environment))
        [used] = [each for each in listed["models"] if each["name"] == answer["target"]]
        _show_chat(command, home, environment)
        return Proof(used["name"], used["sha256"], answer["text"], accepted)


def _answer(
    command: Sequence[str], prompt: str, home: Path, environment: dict[str, str]
) -> dict[str, Any]:
    output = _run([*command, "ask", prompt, "--json", *FIXED], home, environment)
    answer: dict[str, Any] = json.loads(output)
    if not answer["text"].strip() or answer["finish_reason"] not in ("stop", "length"):
        raise ProofError(f"{command[0]} answers {answer['text']!r} ({answer['finish_reason']})")
    return answer


def _run(command: Sequence[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip()
        raise ProofError(f"{' '.join(command)} exits with {done.returncode}: {words}")
    return done.stdout.decode("utf-8")


def _show_chat(command: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    """Open the chat in a terminal, wait for its prompt box, and quit by key."""
    with _terminal([*command, "--profile", "tiny"], folder, environment) as (process, terminal):
        seen = b""
        deadline = time.monotonic() + TIMEOUT_S
        while PROMPT_BOX not in _text(seen):
            if time.monotonic() > deadline or process.poll() is not None:
                raise ProofError(f"{command[0]} shows no chat but: {_text(seen)[-2000:]}")
            seen += _read(terminal)
        os.write(terminal, QUIT)
        while process.poll() is None and time.monotonic() < deadline:
            _read(terminal)  # a full buffer would keep it from ending
        if process.wait(timeout=1):
            raise ProofError(f"{command[0]}: the chat ends with {process.returncode}")


@contextmanager
def _terminal(
    command: Sequence[str], folder: Path, environment: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`command` in a pseudo-terminal of 30 lines and 100 columns, ended with the block."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**environment, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        os.close(ours)


def _read(terminal: int) -> bytes:
    """What arrives within a moment; nothing more comes from a program that has ended."""
    if not select.select([terminal], [], [], 0.2)[0]:
        return b""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def _text(output: bytes) -> str:
    """What a terminal shows, without colours and positions."""
    return _ESCAPE.sub(b"", output).decode("utf-8", "replace")
