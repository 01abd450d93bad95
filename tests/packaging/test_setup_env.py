"""The environment is made once, again when what it is made from changed, and never half."""

from __future__ import annotations

import importlib.util
import runpy
import shutil
import sys
from pathlib import Path

import pytest

import setup_env
from setup_env import SetupError


class Steps:
    """Records the steps of a set-up; the one called `failing` fails."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.failing = ""

    def do(self, step: str) -> None:
        if step == self.failing:
            raise SetupError(step)
        self.done.append(step)

    def check_build(self) -> None:
        self.do("check")

    def make_venv(self) -> None:
        self.do("venv")
        setup_env.VENV.mkdir(exist_ok=True)

    def pip(self, *arguments: str) -> None:
        self.do(Path(arguments[-1]).name)

    def build_wheel(self) -> str:
        self.do("build")
        return "llama.whl"


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    locks = {"runtime": tmp_path / "runtime.lock", "dev": tmp_path / "dev.lock"}
    for lock in locks.values():
        lock.write_text("textual==8\n")
    steps = Steps()
    monkeypatch.setattr(setup_env, "LOCKS", locks)
    monkeypatch.setattr(setup_env, "ROOT", tmp_path / "checkout")
    monkeypatch.setattr(setup_env, "VENV", tmp_path / ".venv")
    for name in ("check_build", "make_venv", "pip", "build_wheel"):
        monkeypatch.setattr(setup_env, name, getattr(steps, name))
    return steps


def set_up(kind: str = "runtime") -> int:
    arguments = ["--dev"] if kind == "dev" else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["setup_env.py", *arguments])
        return setup_env.main()


def test_a_second_run_does_nothing(steps: Steps) -> None:
    assert set_up() == 0
    assert steps.done == ["check", "venv", "runtime.lock", "build", "llama.whl", "checkout"]
    steps.done.clear()
    assert set_up() == 0
    assert steps.done == []


@pytest.mark.parametrize(
    "failing", ["check", "venv", "runtime.lock", "build", "llama.whl", "checkout"]
)
def test_a_set_up_that_failed_half_way_is_done_again(
    steps: Steps, failing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    steps.failing = failing
    assert set_up() == 1
    output = capsys.readouterr()
    assert output.err.endswith(f"specchat: {failing}\n")
    assert output.out == ""
    assert not setup_env.is_ready("runtime")
    steps.failing = ""
    assert set_up() == 0
    assert setup_env.is_ready("runtime")


def test_a_failed_renewal_leaves_no_old_stamp(steps: Steps) -> None:
    set_up("dev")
    setup_env.LOCKS["runtime"].write_text("textual==9\n")
    steps.failing = "runtime.lock"
    set_up()
    setup_env.LOCKS["runtime"].write_text("textual==8\n")
    assert not setup_env.is_ready("runtime")
    assert not setup_env.is_ready("dev")


def test_the_tests_environment_serves_the_program_but_not_the_other_way_round(
    steps: Steps,
) -> None:
    set_up("runtime")
    assert not setup_env.is_ready("dev")
    set_up("dev")
    assert "dev.lock" in steps.done
    assert setup_env.is_ready("runtime")
    assert setup_env.is_ready("dev")


@pytest.mark.parametrize("change", ["lock", "place", "gpu", "python"])
def test_a_change_makes_it_again(
    steps: Steps, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: str
) -> None:
    set_up()
    if change == "lock":
        setup_env.LOCKS["runtime"].write_text("textual==9\n")
    elif change == "place":
        monkeypatch.setattr(setup_env, "ROOT", tmp_path / "moved")
    elif change == "gpu":
        monkeypatch.setenv("GPU", "vulkan")
    else:
        monkeypatch.setattr(sys, "version", "3.99.0")
    assert not setup_env.is_ready("runtime")


def test_a_change_of_the_kernels_makes_it_again() -> None:
    assert {file.suffix for file in setup_env.INPUTS} >= {".cpp", ".h", ".cmake"}


def test_an_old_python_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(setup_env.__file__)
    assert caught.value.code == (
        "specchat needs Python 3.11 or newer and this is 3.10; "
        "name another one: make PYTHON=python3.12 chat"
    )


def test_a_python_without_venv_is_told_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(setup_env, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(SetupError) as caught:
        setup_env.make_venv()
    assert f"sudo apt-get install python{setup_env.VERSION}-venv" in str(caught.value)
