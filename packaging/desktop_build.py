"""The desktop build: one folder with Python, llama.cpp, a model and all else, for any computer.

PyInstaller packs it out of an environment of its own, which has the wheel, the packages of
requirements-desktop.lock, and a llama.cpp with kernels for many CPUs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from python_packages import ROOT, new_environment, pip

LOCK = ROOT / "requirements-desktop.lock"
SPEC = ROOT / "packaging" / "desktop" / "specchat.spec"

# Kernels for one kind of CPU, loaded only where they run; those of `x64` run everywhere.
KERNELS = re.compile(r"ggml-cpu-")
EVERYWHERE = "ggml-cpu-x64"

# Registers of AVX, AVX-512 and AMX in a disassembly: not every CPU has them.
TOO_NEW = re.compile(rb"%[yzt]mm[0-9]")


class DesktopBuildError(Exception):
    """The build would not run elsewhere; the message says why."""


def build(wheel: Path, llama: Path, model: Path, work: Path) -> Path:
    """The folder with the program, below `work`. Raises DesktopBuildError.

    `llama` is a portable wheel of llama-cpp-python, `model` the file that new users start with.
    """
    python = new_environment(work / "desktop environment")
    pip(python, "--no-deps", "--require-hashes", "--requirement", str(LOCK))
    pip(python, "--no-deps", str(llama), str(wheel))
    subprocess.run(
        [
            *(python, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"),
            *("--distpath", work / "desktop", "--workpath", work / "pyinstaller", SPEC),
        ],
        env={**os.environ, "SPECCHAT_MODEL": str(model)},
        check=True,
    )
    folder = work / "desktop" / "specchat"
    if sys.platform == "linux":
        require_portable(folder / "_internal" / "llama_cpp" / "lib")
    return folder


def require_portable(libraries: Path) -> None:
    """Raise DesktopBuildError where llama.cpp lacks kernels for any x86-64 CPU, or a library that
    every CPU loads has code for newer ones.
    """
    files = sorted(libraries.iterdir())
    if not any(EVERYWHERE in file.name for file in files):
        raise DesktopBuildError(f"{libraries} has no {EVERYWHERE}: not built with --portable")
    for library in files:
        if KERNELS.search(library.name) and EVERYWHERE not in library.name:
            continue
        code = _objdump("-d", "--no-show-raw-insn", str(library))
        if found := TOO_NEW.search(code):
            raise DesktopBuildError(
                f"{library.name} uses {found[0].decode()}: built for newer CPUs"
            )


def glibc_floor(folder: Path) -> str:
    """The oldest glibc that has all symbols which the programs and libraries in `folder` want."""
    versions = [
        tuple(map(int, match.groups()))
        for file in folder.rglob("*")
        if file.is_file() and _is_elf(file)
        for match in re.finditer(rb"GLIBC_(\d+)\.(\d+)", _objdump("-T", str(file)))
    ]
    return "{}.{}".format(*max(versions))


def _is_elf(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4) == b"\x7fELF"


def _objdump(*arguments: str) -> bytes:
    command = ["objdump", *arguments]
    done = subprocess.run(command, capture_output=True, check=True)
    return done.stdout
