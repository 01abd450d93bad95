"""Kernels by name: a folder with those alone, and one line where there are none."""

from __future__ import annotations

import ctypes
import sys
import zipfile
from pathlib import Path

import pytest

import build
import kernels
from kernels import KernelsError

BESIDE = ("libggml-base.so", "libggml.so", "libllama.so")


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A portable wheel whose kernels `haswell` and `zen4` this CPU can execute."""
    path = tmp_path / "key" / "llama.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*BESIDE, *(f"libggml-cpu-{n}.so" for n in ("haswell", "zen4", "amx"))):
            archive.writestr(f"llama_cpp/lib/{name}", name)
        archive.writestr("llama_cpp/llama.py", "no library")
        archive.writestr("lib/libllama.so", "another copy")
    return path


@pytest.fixture(autouse=True)
def built(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The CMAKE_ARGS of each wheel that was asked for."""
    asked: list[str] = []

    def obtain(gpu: str, environ: dict[str, str], progress: object, portable: bool) -> Path:
        assert (gpu, portable) == ("", True)
        asked.append(environ.get("CMAKE_ARGS", ""))
        return wheel

    monkeypatch.setattr(build, "obtain_wheel", obtain)
    monkeypatch.setattr(ctypes, "CDLL", lambda path: None)
    monkeypatch.setattr(kernels, "_runs_here", lambda file: "amx" not in file.name)
    return asked


def test_a_folder_has_the_kernels_that_were_named_and_no_others(wheel: Path) -> None:
    folder = kernels.folder("haswell", {})
    assert {file.name for file in folder.iterdir()} == {*BESIDE, "libggml-cpu-haswell.so"}
    assert (folder / "libllama.so").read_text() == "libllama.so"
    assert kernels.folder("haswell", {}) == folder
    assert kernels.folder("zen4", {}) != folder


@pytest.mark.parametrize("name", ["amx", "z80", "../haswell", ""])
def test_kernels_that_this_cpu_cannot_execute_or_that_nobody_has_are_refused_in_one_line(
    name: str,
) -> None:
    with pytest.raises(KernelsError) as refused:
        kernels.folder(name, {})
    told = f"this CPU has no kernels {name!r}; it can execute: haswell, zen4, generic"
    assert str(refused.value) == told


def test_without_a_name_those_are_listed_that_this_cpu_can_execute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kernels.py"])
    assert kernels.main() == 0
    assert capsys.readouterr().out == "haswell\nzen4\n"
    monkeypatch.setattr(sys, "argv", ["kernels.py", "z80"])
    assert kernels.main() == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_generic_kernels_have_a_build_of_their_own_beside_a_persons_settings(
    wheel: Path, built: list[str]
) -> None:
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in (*BESIDE, "libggml-cpu.so"):
            archive.writestr(f"llama_cpp/lib/{name}", name)
    folder = kernels.folder("generic", {"CMAKE_ARGS": "-DGGML_OPENMP=OFF"})
    assert (folder / "libggml-cpu.so").exists()
    assert built == ["-DGGML_OPENMP=OFF -DGGML_CPU_ALL_VARIANTS=OFF"]
