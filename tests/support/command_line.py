"""Runs `specchat` as a person does: a child process with a home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import click
from click.testing import CliRunner

from specchat.config import locations
from specchat.errors import SpecchatError
from specengine.core.errors import SpecEngineError

# As conftest does: before a test points SPECCHAT_HOME elsewhere.
_MODELS_DIR = locations.models_dir()
_BENCH = Path(__file__).resolve().parents[2] / "bench"


def environment(home: Path) -> dict[str, str]:
    """The environment of a new user who shares only the models that tests have fetched."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SPECCHAT_")}
    own = {"SPECCHAT_HOME": str(home), "SPECCHAT_MODELS_DIR": str(_MODELS_DIR)}
    return {**kept, **own, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}


def specchat(
    home: Path, *arguments: str, stdin: str | bytes = b"", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run to the end, with `stdin` on standard input, never a terminal."""
    return _run(["-m", "specchat", *arguments], home, stdin, env)


def refusal(command: click.Command, home: Path, *arguments: str) -> str:
    """Why `command` fails, in this process: what `specchat` prints in one line, with exit code 1.

    "wrong usage" for exit code 2.
    """
    result = CliRunner(env=environment(home)).invoke(command, arguments)
    assert result.stdout == ""
    if result.exit_code == 2:
        return "wrong usage"
    assert isinstance(result.exception, SpecchatError | SpecEngineError), result.exception
    return str(result.exception)


def bench_program(name: str, home: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program of bench/ to the end, as `specchat` does."""
    return _run([str(_BENCH / name), *arguments], home)


def _run(
    arguments: list[str], home: Path, stdin: str | bytes = b"", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, *arguments],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        env={**environment(home), **(env or {})},
        timeout=240,
        check=False,
    )


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
