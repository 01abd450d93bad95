"""The desktop build: its entry point starts the program's own children, and it fits other CPUs."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import desktop_build
from desktop_build import DesktopBuildError

ROOT = Path(__file__).resolve().parents[2]
ENTRY = ROOT / "packaging" / "desktop" / "entry.py"


@pytest.fixture
def entry() -> ModuleType:
    spec = importlib.util.spec_from_file_location("entry", ENTRY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ENTRY), *arguments], capture_output=True, text=True, check=False
    )


def test_every_child_that_the_program_starts_is_known(entry: ModuleType) -> None:
    started = set()
    for file in (*ROOT.glob("app/**/*.py"), *ROOT.glob("engine/specengine/**/*.py")):
        for name in re.findall(r'sys\.executable, "-m", ("[\w.]+"|__name__)', file.read_text()):
            own = ".".join(file.relative_to(ROOT).with_suffix("").parts[1:])
            started.add(own if name == "__name__" else name.strip('"'))
    assert "specengine.llama.probe_child" in started
    assert started - {"pip"} == set(entry.CHILDREN)


def test_a_child_runs_as_a_python_would_run_it() -> None:
    done = start("-m", "specengine.llama.probe_child")
    stages = [json.loads(line)["stage"] for line in done.stdout.splitlines()]
    assert stages == ["plain", "extra"], done.stderr


@pytest.mark.parametrize("arguments", [["-m", "json.tool"], ["-m"]])
def test_no_other_module_runs(arguments: list[str]) -> None:
    done = start(*arguments)
    assert done.returncode == 2
    assert "-m" in done.stderr


def test_without_a_child_it_is_the_command_line() -> None:
    assert start("--version").stdout.startswith("specchat, version ")


@pytest.mark.parametrize("original", ["/opt/lib", None])
def test_programs_of_the_system_do_not_get_our_libraries(
    entry: ModuleType, monkeypatch: pytest.MonkeyPatch, original: str | None
) -> None:
    environ = {"LD_LIBRARY_PATH": "/build/_internal", "HOME": "/home"}
    if original:
        environ["LD_LIBRARY_PATH_ORIG"] = original
    monkeypatch.setattr(entry.os, "environ", environ)
    entry.restore_library_path()
    assert environ == {"HOME": "/home", **({"LD_LIBRARY_PATH": original} if original else {})}


@pytest.mark.parametrize("library", ["libllama.so", "libggml-cpu-x64.so"])
@pytest.mark.parametrize("register", ["ymm1", "zmm31", "tmm0"])
def test_code_for_newer_cpus_is_refused_where_every_cpu_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, register: str
) -> None:
    new, old = f"op %{register}".encode(), b"addps %xmm1,%xmm2\n"
    code = dict.fromkeys(("libllama.so", "libggml-cpu-x64.so"), old)
    code["libggml-cpu-sapphirerapids.so"] = new
    for name in code:
        (tmp_path / name).touch()
    monkeypatch.setattr(desktop_build, "_objdump", lambda *a: code[Path(a[-1]).name])
    desktop_build.require_portable(tmp_path)
    code[library] = old + new
    with pytest.raises(DesktopBuildError, match=rf"{library} uses %{register[:3]}"):
        desktop_build.require_portable(tmp_path)


def test_a_build_without_kernels_for_every_cpu_is_refused(tmp_path: Path) -> None:
    (tmp_path / "libggml-cpu.so").touch()
    with pytest.raises(DesktopBuildError, match="no ggml-cpu-x64: not built with --portable"):
        desktop_build.require_portable(tmp_path)


def test_the_glibc_floor_is_the_newest_symbol_as_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program").write_bytes(b"\x7fELF")
    (tmp_path / "data").write_bytes(b"GGUF")
    table = {"program": b"GLIBC_2.9 x\nGLIBC_2.34 y\n", "data": b"GLIBC_9.9"}
    monkeypatch.setattr(desktop_build, "_objdump", lambda _, file: table[Path(file).name])
    assert desktop_build.glibc_floor(tmp_path) == "2.34"
