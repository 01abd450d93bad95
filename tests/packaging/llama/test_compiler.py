"""Which compilers are found, what they are taken for, and what to say where there are none."""

from __future__ import annotations

import platform
import shutil
import sys

import pytest

import compiler
from compiler import Compiler, CompilerMissingError
from support.programs import Programs

GCC_12 = {"__GNUC__": "12", "__GNUC_MINOR__": "2"}
AMX = {"__AMX_TILE__": "1"}

posix = pytest.mark.skipif(sys.platform == "win32", reason="compilers here are shell scripts")


@pytest.mark.parametrize(
    ("macros", "wrong"),
    [
        pytest.param(GCC_12, True, id="GCC 12"),
        pytest.param({"__GNUC__": "13", "__GNUC_MINOR__": "2", **AMX}, True, id="GCC 13.2"),
        pytest.param({"__GNUC__": "13", "__GNUC_MINOR__": "3", **AMX}, False, id="GCC 13.3"),
        pytest.param({"__GNUC__": "14", "__GNUC_MINOR__": "1", **AMX}, False, id="GCC 14.1"),
        pytest.param(
            {"__clang__": "1", "__GNUC__": "4", "__GNUC_MINOR__": "2", **AMX}, False, id="clang"
        ),
        pytest.param({}, False, id="Visual Studio"),
    ],
)
def test_gcc_before_13_3_gets_amx_wrong(macros: dict[str, str], wrong: bool) -> None:
    assert Compiler("cc", "c++", "", macros).gets_amx_wrong is wrong


def test_whether_the_cpu_has_amx_is_the_compilers_word() -> None:
    assert Compiler("cc", "c++", "", {**GCC_12, **AMX}).aims_at_amx
    assert not Compiler("cc", "c++", "", GCC_12).aims_at_amx


def add_compiler(programs: Programs, *names: str, macros: str = "") -> None:
    """Compilers that know their version and their macros, which is all that is asked of them."""
    for name in names:
        script = f'case "$*" in *--version) echo "{name} 1";; *) printf "{macros}";; esac'
        programs.add(name, script=script)


@posix
def test_identity_tells_versions_and_cpu(programs: Programs) -> None:
    add_compiler(programs, "cc", macros=r"#define __GNUC__ 12\n#define __AMX_TILE__ 1\n")
    add_compiler(programs, "c++")
    found = compiler.find({})
    assert (found.cc, found.cxx) == ("cc", "c++")
    assert found.macros == {"__GNUC__": "12", "__AMX_TILE__": "1"}
    assert found.identity.splitlines() == ["cc 1", "c++ 1", "__AMX_TILE__ 1", "__GNUC__ 12"]


@posix
def test_cc_and_cxx_outrank_the_defaults(programs: Programs) -> None:
    add_compiler(programs, "cc", "c++", "mine", "mine++", "icx", "icpx")
    found = compiler.find({"CC": "mine -m64", "CXX": "mine++"}, ("icx", "icpx"))
    assert (found.cc, found.cxx) == ("mine -m64", "mine++")
    found = compiler.find({}, ("icx", "icpx"))
    assert (found.cc, found.cxx) == ("icx", "icpx")


@posix
@pytest.mark.parametrize(("there", "missing"), [([], "C compiler"), (["cc"], "C++ compiler")])
def test_a_missing_compiler_is_named_with_the_command_that_installs_it(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, there: list[str], missing: str
) -> None:
    add_compiler(programs, *there, "apt-get")
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    with pytest.raises(CompilerMissingError) as caught:
        compiler.find({})
    assert str(caught.value) == (
        f"no {missing} runs here; install one with: sudo apt-get install build-essential"
    )


@posix
def test_a_compiler_that_was_asked_for_is_not_replaced_by_another(programs: Programs) -> None:
    add_compiler(programs, "cc", "c++")
    with pytest.raises(CompilerMissingError, match="the compiler icx does not run here"):
        compiler.find({}, ("icx", "icpx"))


@posix
def test_a_compiler_that_does_not_run_counts_as_missing(programs: Programs) -> None:
    add_compiler(programs, "c++")
    programs.add("cc", script="exit 1")  # as macOS has it before Xcode's tools
    with pytest.raises(CompilerMissingError, match="no C compiler"):
        compiler.find({})


@pytest.mark.parametrize(
    ("system", "manager", "command"),
    [
        ("Linux", "dnf", "sudo dnf install gcc gcc-c++ make"),
        ("Linux", "pacman", "sudo pacman -S --needed base-devel"),
        ("Darwin", None, "xcode-select --install"),
        ("Windows", None, "winget install Microsoft.VisualStudio.2022.BuildTools"),
    ],
)
def test_remedy_fits_the_platform(
    monkeypatch: pytest.MonkeyPatch, system: str, manager: str | None, command: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(shutil, "which", lambda name: name if name == manager else None)
    assert compiler.remedy().startswith(command)
