"""The C and C++ compilers that will build llama.cpp: which, what they are, what this CPU offers."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

GCC_WITH_WORKING_AMX = (13, 3)

# The first package manager found names the command for a missing compiler.
_LINUX_REMEDIES = {
    "apt-get": "sudo apt-get install build-essential",
    "dnf": "sudo dnf install gcc gcc-c++ make",
    "pacman": "sudo pacman -S --needed base-devel",
    "zypper": "sudo zypper install gcc gcc-c++ make",
    "apk": "sudo apk add build-base linux-headers",
}
_REMEDIES = {
    "Darwin": "xcode-select --install",
    "Windows": "winget install Microsoft.VisualStudio.2022.BuildTools --override "
    '"--passive --wait --add Microsoft.VisualStudio.Workload.VCTools --includeRecommended"',
}


class CompilerMissingError(Exception):
    """No C or C++ compiler that runs; the message has the one command that installs them."""


@dataclass(frozen=True)
class Compiler:
    """`cc` and `cxx` are commands for the CC and CXX variables, None where CMake finds its own.

    `identity` is what a build depends on: name and version of both, and the CPU they aim at.
    `macros` are those that the C compiler predefines for this very CPU; empty for MSVC.
    """

    cc: str | None
    cxx: str | None
    identity: str
    macros: Mapping[str, str]

    @property
    def aims_at_amx(self) -> bool:
        """Whether this CPU has AMX, as far as the compiler can tell."""
        return "__AMX_TILE__" in self.macros

    @property
    def gets_amx_wrong(self) -> bool:
        """Whether it miscompiles AMX tile set-up: see amx_tile_config.h."""
        if "__GNUC__" not in self.macros or "__clang__" in self.macros:
            return False
        version = (int(self.macros["__GNUC__"]), int(self.macros["__GNUC_MINOR__"]))
        return version < GCC_WITH_WORKING_AMX


def remedy() -> str:
    """The one command that installs compilers on this platform."""
    if platform.system() != "Linux":
        return _REMEDIES.get(platform.system(), "install a C and a C++ compiler")
    for manager, command in _LINUX_REMEDIES.items():
        if shutil.which(manager):
            return command
    return "install gcc and g++ with this system's package manager"


def find(
    environ: Mapping[str, str] = os.environ, defaults: tuple[str, str] | None = None
) -> Compiler:
    """The compilers that CC and CXX name, else `defaults`, else the platform's own.

    Raises CompilerMissingError.
    """
    cc, cxx = defaults or (None, None)
    cc, cxx = environ.get("CC") or cc, environ.get("CXX") or cxx
    if platform.system() == "Windows" and not (cc and cxx):
        return _visual_studio(environ)
    cc = cc or _first_that_runs("cc", "gcc", "clang")
    cxx = cxx or _first_that_runs("c++", "g++", "clang++")
    if not (cc and cxx):
        missing = "C++" if cc else "C"
        raise CompilerMissingError(f"no {missing} compiler runs here; install one with: {remedy()}")
    versions = [_output([*command.split(), "--version"]) for command in (cc, cxx)]
    for command, version in zip((cc, cxx), versions, strict=True):
        if not version:
            raise CompilerMissingError(f"the compiler {command} does not run here: is it on PATH?")
    macros = _macros(cc)
    cpu = "\n".join(f"{name} {value}" for name, value in sorted(macros.items()))
    identity = "\n".join([*versions, cpu or platform.processor()])
    return Compiler(cc, cxx, identity, macros)


def _first_that_runs(*names: str) -> str | None:
    # macOS has a `cc` that only offers to install the real one: finding it is not enough.
    return next((name for name in names if _output([name, "--version"])), None)


def _macros(cc: str) -> dict[str, str]:
    """What `cc` predefines when it compiles for this CPU."""
    arm = platform.machine().lower() in ("arm64", "aarch64")
    native = "-mcpu=native" if arm else "-march=native"
    text = _output([*cc.split(), native, "-dM", "-E", "-x", "c", os.devnull])
    lines = (line.split(maxsplit=2) for line in text.splitlines())
    return {line[1]: line[2] if len(line) > 2 else "" for line in lines if len(line) > 1}


def _visual_studio(environ: Mapping[str, str]) -> Compiler:
    """Visual Studio's compiler: CMake finds it by itself, so only its version is asked for."""
    folder = environ.get("ProgramFiles(x86)", "C:/Program Files (x86)")
    version = _output(
        [
            str(Path(folder, "Microsoft Visual Studio/Installer/vswhere.exe")),
            *("-latest", "-products", "*", "-property", "installationVersion"),
            *("-requires", "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"),
        ]
    )
    if not version:
        raise CompilerMissingError(f"no C++ compiler is installed; install one with: {remedy()}")
    return Compiler(None, None, f"Visual Studio {version}\n{platform.processor()}", {})


def _output(command: list[str]) -> str:
    """What `command` prints, or "" where it is missing or fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
