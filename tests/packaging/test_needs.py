"""What packaging lacks is known before it begins, all of it, and costs only what needs it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import compiler
import needs
import package
from support.programs import Programs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names what Linux needs")

ALL = ("cc", "c++", "objdump", "dpkg", "dpkg-deb", "dpkg-query", "makeself", "apt-get")


def check(monkeypatch: pytest.MonkeyPatch, *stages: str) -> int:
    monkeypatch.setattr(sys, "argv", ["needs.py", *stages])
    return needs.main()


def without(*missing: str) -> list[str]:
    return [name for name in ALL if name not in missing]


def test_where_all_is_there_nothing_is_said(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs.add(*ALL)
    assert check(monkeypatch) == 0
    assert capsys.readouterr().err == ""


def test_all_that_is_missing_is_named_with_one_command(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs.add("apt-get")
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "ensurepip" else find_spec(name, *rest),
    )
    assert check(monkeypatch) == 1
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert capsys.readouterr().err == (
        "package: missing: C and C++ compilers, Python's ensurepip, objdump, dpkg, dpkg-deb, "
        "dpkg-query, makeself; install all of it with: "
        f"{compiler.remedy()} binutils dpkg makeself python{version}-venv\n"
    )


def test_without_makeself_the_others_can_be_made(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs.add(*without("makeself"))
    assert check(monkeypatch) == 0
    assert capsys.readouterr().err == (
        "package: will not be made: run, for want of makeself; install what is missing with: "
        "sudo apt-get install makeself\n"
    )


def test_what_is_made_from_the_desktop_folder_is_left_out_with_it(programs: Programs) -> None:
    programs.add(*without("objdump"))
    missing = needs.missing_programs(needs.STAGES)
    assert missing == {stage: ["objdump"] for stage in ("desktop", "deb", "run")}


def test_where_nothing_can_be_made_it_ends_before_anything_is_compiled(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.add(*without("makeself"))
    assert check(monkeypatch, "run") == 1


def test_packaging_makes_what_it_can_and_names_the_rest_at_its_end(
    programs: Programs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    programs.add(*without("makeself"))
    made = []
    for name in ("package_python", "package_desktop", "package_deb", "package_self_extracting"):
        monkeypatch.setattr(package, name, lambda name=name: made.append(name))
    monkeypatch.setattr(package, "WORK", tmp_path / "work")
    monkeypatch.setattr(package, "DIST", tmp_path / "dist")
    monkeypatch.setattr(sys, "argv", ["package.py"])
    assert package.main() == 1
    assert made == ["package_python", "package_desktop", "package_deb"]
    assert capsys.readouterr().err.endswith("sudo apt-get install makeself\n")


def test_what_is_missing_is_looked_for_before_the_environment_is_made() -> None:
    [recipe] = [
        part
        for part in Path(needs.__file__).parents[1].joinpath("Makefile").read_text().split("\n\n")
        if part.startswith(("package:", "# Wheel"))
    ]
    steps = [line.split()[1] for line in recipe.splitlines() if line.startswith("\t")]
    assert steps == [f"packaging/{name}.py" for name in ("needs", "setup_env", "package")]
