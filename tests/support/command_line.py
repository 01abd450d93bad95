"""Runs `specchat` as a person does, with a home of its own."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO
from unittest.mock import patch

import pytest

from specchat import __main__ as program
from specchat.config import locations

# As conftest does: before a test points SPECCHAT_HOME elsewhere.
_MODELS_DIR = locations.models_dir()
_BENCH = Path(__file__).resolve().parents[2] / "bench"


def environment(home: Path) -> dict[str, str]:
    """The environment of a new user who shares only the models that tests have fetched."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SPECCHAT_")}
    own = {"SPECCHAT_HOME": str(home), "SPECCHAT_MODELS_DIR": str(_MODELS_DIR)}
    return {**kept, **own, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}


Done = subprocess.CompletedProcess[bytes]


def specchat(
    home: Path, *arguments: str, stdin: str | bytes = b"", env: dict[str, str] | None = None
) -> Done:
    """Run to the end in this process, with `stdin` on standard input, never a terminal. Standard
    output is a file in the encoding of some locale.
    """
    given = stdin.encode() if isinstance(stdin, str) else stdin
    out, error = BytesIO(), BytesIO()
    with (
        patch.dict(os.environ, environment(home) | (env or {}), clear=True),
        pytest.MonkeyPatch.context() as monkeypatch,
        empty_log(),
    ):
        monkeypatch.setattr(sys, "argv", ["specchat", *arguments])
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(given), "utf-8"))
        monkeypatch.setattr(sys, "stdout", TextIOWrapper(out, "cp1252"))
        monkeypatch.setattr(sys, "stderr", TextIOWrapper(error, "utf-8", write_through=True))
        with pytest.raises(SystemExit) as exited:
            program.main()
        sys.stdout.flush()
        return subprocess.CompletedProcess(
            sys.argv, int(exited.value.code or 0), out.getvalue(), error.getvalue()
        )


def refusal(home: Path, *arguments: str) -> str:
    """The line that says why `specchat` fails, with exit code 1; "wrong usage" for exit code 2."""
    done = specchat(home, *arguments)
    assert done.stdout == b""
    if done.returncode == 2:
        return "wrong usage"
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    return line


def specchat_process(home: Path, *arguments: str, env: dict[str, str]) -> Done:
    """Run to the end in a process of its own, for what only the start of one can show."""
    return _run(["-m", "specchat", *arguments], home, env)


@contextmanager
def started(home: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """`specchat` in a process of its own, for tests that stop it, and its standard output."""
    process = subprocess.Popen(
        [sys.executable, "-m", "specchat", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(home) | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout
    finally:
        process.kill()
        process.communicate()


def bench_program(name: str, home: Path, *arguments: str) -> Done:
    """Run a program of bench/ to the end in a process of its own."""
    return _run([str(_BENCH / name), *arguments], home, {})


def _run(arguments: list[str], home: Path, env: dict[str, str]) -> Done:
    return subprocess.run(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(home) | env,
        timeout=240,
        check=False,
    )


@contextmanager
def empty_log() -> Iterator[None]:
    """The log begins anew, as in a process of its own, and afterwards goes on as before."""
    root, raises = logging.getLogger(), logging.raiseExceptions
    before = root.handlers.copy()
    root.handlers.clear()
    try:
        yield
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers[:], logging.raiseExceptions = before, raises


def on_terminal(home: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    """What a terminal that is standard output gets to show. Not for Windows."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "specchat", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**environment(home), **(env or {})},
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # Linux reports the end as an error
        while piece := os.read(ours, 4096):
            shown += piece
    os.close(ours)
    process.wait()
    return shown.decode()
