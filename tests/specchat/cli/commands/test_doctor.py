"""`specchat doctor`: a line for each check, the command that mends it, and an honest exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specchat.cli.commands.doctor import command
from specchat.doctor import diagnosis, passes
from specchat.doctor.check import Check

OK = Check("Python", "ok", "3.12")
WARN = Check("disk", "warn", "little", remedy="specchat models rm x")
FAIL = Check("decoding", "fail", "dies", remedy="make clean chat")


def run(monkeypatch: pytest.MonkeyPatch, checks: list[Check], *arguments: str) -> Any:
    monkeypatch.setattr(diagnosis, "diagnose", lambda: iter(checks))
    return command.main(list(arguments), standalone_mode=False)


def test_each_check_is_a_line_and_each_remedy_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, [OK, WARN]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ok    Python           3.12",
        "warn  disk             little",
        "                       -> specchat models rm x",
        "Causes and remedies by symptom: docs/troubleshooting.md",
    ]


def test_a_failure_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, [OK, FAIL, WARN]) == 1


def test_json_has_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, [OK, FAIL], "--json") == 1
    assert json.loads(capsys.readouterr().out) == {
        "ok": False,
        "checks": [
            {"name": "Python", "status": "ok", "detail": "3.12", "remedy": None},
            {
                "name": "decoding",
                "status": "fail",
                "detail": "dies",
                "remedy": "make clean chat",
            },
        ],
    }


def test_passes_are_measured_again_before_the_checks_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = []

    async def measure_again(on_event: object) -> None:
        measured.append(on_event)

    monkeypatch.setattr(passes, "measure_again", measure_again)
    assert run(monkeypatch, [OK]) == 0
    assert not measured
    assert run(monkeypatch, [OK], "--measure") == 0
    assert len(measured) == 1


def test_this_very_machine_is_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "specchat", "doctor", "--json"], capture_output=True, text=True
    )
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 0, done.stderr
    assert checks["llama.cpp"]["status"] == "ok"
    assert checks["decoding"]["status"] in ("ok", "warn")
    assert checks["models"]["remedy"] == "specchat models pull tiny"
    assert str(tmp_path / "config") in checks["folders"]["detail"]
