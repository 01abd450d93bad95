"""`specchat verify` as a person runs it."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from specchat.cli.commands import verify as command_module
from specengine.checks.verification import Check
from specengine.load.pair import Pair
from support.command_line import environment, specchat, started

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals")

QUICK = ("--profile", "tiny", "--max-tokens", "8", "--draws", "200")


@pytest.fixture(autouse=True)
def models(tiny_model: Path) -> None:
    """The profile `tiny` needs no download."""


@pytest.mark.usefixtures("smollm_step")
def test_a_sound_pair_is_certified(tmp_path: Path) -> None:
    done = specchat(tmp_path, "verify", "Count from one to five.", *QUICK, "--seed", "5", "--json")
    assert done.returncode == 0, done.stderr.decode()
    certificate = json.loads(done.stdout)
    assert [check["name"] for check in certificate["checks"]] == [
        "padding",
        "reproducible",
        "near-ties",
        "sampling",
        "self-draft",
    ]
    assert all(check["passed"] for check in certificate["checks"])
    assert certificate["questions"] == ["Count from one to five."]
    assert certificate["target"]["sha256"].startswith("b179c952")
    assert certificate["draft"]["file"] == "smollm2-135m-eagle3.gguf"
    assert (certificate["seed"], certificate["max_tokens"]) == (5, 8)
    figures = {check["name"]: check["figures"] for check in certificate["checks"]}
    assert figures["near-ties"]["bound"] == 0.75
    assert figures["sampling"]["draws"] == 200


@pytest.mark.usefixtures("smollm_step")
def test_the_certificate_is_short_and_says_of_what(tmp_path: Path) -> None:
    done = specchat(tmp_path, "verify", "Say yes.", *QUICK, "--seed", "5")
    lines = done.stdout.decode().splitlines()
    assert sum(line.startswith("ok ") for line in lines) == 5
    assert len(lines) < 20
    assert "smollm2-135m.gguf, Q4_1, sha256 b179c952" in done.stdout.decode()
    assert "seed 5" in lines[-2]
    assert lines[-1].endswith("the text is the target's own")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_check_that_fails_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def verify(pair: Pair, *_: object) -> Iterator[Check]:
        yield Check("reproducible", True, "as it should be")
        yield Check("sampling", False, "p-values from 0 up", {"limit": 0.1})

    monkeypatch.setattr(command_module, "verify", verify)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    arguments = [*QUICK, *(["--json"] if as_json else [])]
    done = CliRunner().invoke(command_module.command, arguments, standalone_mode=False)
    assert done.return_value == 1
    if as_json:
        assert json.loads(done.stdout)["checks"][1]["figures"] == {"limit": 0.1}
    else:
        assert "FAIL sampling      p-values from 0 up" in done.stdout
        assert done.stdout.splitlines()[-1] == "NOT certified: sampling failed"


def test_a_remote_target_is_refused(tmp_path: Path) -> None:
    done = specchat(tmp_path, "verify", "--target", "http://127.0.0.1:9/")
    assert done.returncode == 1
    assert done.stderr.decode().endswith(
        "run specchat verify on the machine that runs the target\n"
    )


@posix
def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    with started(tmp_path, "verify", "--profile", "tiny") as (child, output):
        assert b"padding" in output.readline()
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert b"Traceback" not in errors
