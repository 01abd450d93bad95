"""The root of the command line."""

import errno
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from specchat.cli import main as cli
from specchat.cli.main import COMMANDS
from specchat.config import locations
from specchat.version import __version__
from support.command_line import empty_log, environment, on_terminal, specchat, specchat_process


def run(*arguments: str) -> Result:
    """In this process, as nothing needs a terminal or a model."""
    return CliRunner().invoke(cli.specchat, arguments, prog_name="specchat")


def test_help_names_every_command() -> None:
    shown = run("--help").output
    assert [name for name in COMMANDS if f"\n  {name} " not in shown] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_help(command: str) -> None:
    assert run(command, "--help").output.startswith(f"Usage: specchat {command} ")


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert specchat(tmp_path, "--version").stdout.decode().strip().endswith(__version__)


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("aks hi", "No such command 'aks'"),
        ("--temperature 0 ask hi", "--temperature must follow ask"),
    ],
    ids=["an unknown command", "a flag before a command, which would do nothing"],
)
def test_wrong_usage_is_told(line: str, cause: str) -> None:
    result = run(*line.split())
    assert result.exit_code == 2
    assert cause in result.stderr


def test_nothing_on_standard_input_is_wrong_usage(tmp_path: Path) -> None:
    assert specchat(tmp_path).returncode == 2


C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
posix = pytest.mark.skipif(sys.platform == "win32", reason="arguments are Unicode there")


@posix
def test_a_prompt_is_read_as_utf_8_whatever_the_locale_is(tmp_path: Path, tiny_model: Path) -> None:
    question = ("ask", "Đường đến Zürich", "--profile", "tiny", "--max-tokens", "1", "--json")
    counts = [
        json.loads(specchat_process(tmp_path, *question, env=locale).stdout)["prompt_tokens"]
        for locale in ({}, C_LOCALE)
    ]
    assert counts[0] == counts[1]


@posix
@pytest.mark.parametrize("arguments", [[b"caf\xe9"], [b"x", b"--system", b"caf\xe9"]])
def test_an_argument_that_is_no_utf_8_is_refused_and_not_read_as_something_else(
    tmp_path: Path, arguments: list[bytes]
) -> None:
    result = specchat(tmp_path, "ask", *map(os.fsdecode, arguments))
    assert result.returncode == 2
    assert b"it is not UTF-8" in result.stderr


def test_flags_hold_for_piped_input_too(tmp_path: Path, tiny_model: Path) -> None:
    flags = ("--target", str(tiny_model), "--system", "", "--temperature", "0", "--max-tokens", "8")
    question = "What is the capital of France?"
    asked = specchat(tmp_path, "ask", question, *flags, "--reproducible")
    piped = specchat(tmp_path, *flags, "--reproducible", stdin=question)
    assert piped.returncode == 0, piped.stderr.decode()
    assert piped.stdout == asked.stdout != b""


@pytest.fixture
def log_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path))
    monkeypatch.setattr(logging, "raiseExceptions", True)
    with empty_log():
        yield


def fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program has a fault."""

    def main(**_: Any) -> None:
        raise ValueError("two\nlines")

    monkeypatch.setattr(cli.specchat, "main", main)
    with pytest.raises(SystemExit) as exited:
        cli.main(lambda flags: 0)
    assert exited.value.code == 1


@pytest.mark.usefixtures("log_of_its_own")
def test_a_fault_of_the_program_is_one_line_and_its_traceback_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail(monkeypatch)
    error = capsys.readouterr().err
    assert error.startswith("specchat: internal error (ValueError: two lines)")
    assert str(locations.log_file()) in error
    assert error.count("\n") == 1
    assert "Traceback" in locations.log_file().read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals there")
def test_no_color_is_heeded(tmp_path: Path) -> None:
    assert "\x1b[" in on_terminal(tmp_path, "doctor")
    plain = on_terminal(tmp_path, "doctor", env={"NO_COLOR": "1"})
    assert "Python" in plain
    assert "\x1b[" not in plain


def test_an_error_shows_the_control_characters_of_what_it_quotes(tmp_path: Path) -> None:
    result = specchat(tmp_path, "sessions", "import", str(tmp_path / "\x1b[31m.json"))
    assert result.returncode == 1
    assert "␛[31m.json cannot be read" in result.stderr.decode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="nothing is always full there")
def test_a_full_disk_behind_the_output_is_no_fault_of_the_program(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "specchat", "models", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(tmp_path),
            check=False,
        )
    assert result.returncode == 1
    assert result.stderr.decode() == f"specchat: {os.strerror(errno.ENOSPC)}\n"


@pytest.mark.usefixtures("log_of_its_own")
def test_a_log_that_cannot_be_written_is_no_word_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").write_text("no folder")

    fail(monkeypatch)
    assert capsys.readouterr().err.count("\n") == 1
