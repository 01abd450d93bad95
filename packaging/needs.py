"""What `make package` needs beyond Python's packages, looked for before anything is compiled.

    python packaging/needs.py [STAGE...]

names all that is missing, with the one command that installs it. It fails where nothing can be
made without that; else what can be made is made, and package.py names the rest at its end. Only the
standard library is needed.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent / "llama"))

import compiler

STAGES = ("python", "desktop", "deb", "run")

# Programs, and the packages that have them: each has one name with every package manager.
_BINUTILS = {"objdump": "binutils"} if sys.platform == "linux" else {}
_DPKG = dict.fromkeys(("dpkg", "dpkg-deb", "dpkg-query"), "dpkg")
_PROGRAMS: Mapping[str, Mapping[str, str]] = {
    "desktop": _BINUTILS,
    "deb": {**_BINUTILS, **_DPKG},
    "run": {"makeself": "makeself"},
}
_MADE_FROM_DESKTOP = ("deb", "run")

_INSTALL = {
    "apt-get": "sudo apt-get install",
    "dnf": "sudo dnf install",
    "pacman": "sudo pacman -S --needed",
    "zypper": "sudo zypper install",
    "apk": "sudo apk add",
}


def main() -> int:
    stages = sys.argv[1:] or STAGES
    missing = missing_programs(stages)
    base = _missing_base()
    if base or missing:
        _tell(base, missing)
    return int(bool(base) or set(missing) >= set(stages))


def missing_programs(stages: Sequence[str]) -> dict[str, list[str]]:
    """Those of `stages` that cannot be made, and the programs that each lacks."""
    missing: dict[str, list[str]] = {}
    for stage in stages:
        programs = [p for p in _PROGRAMS.get(stage, ()) if shutil.which(p) is None]
        if stage in _MADE_FROM_DESKTOP:
            programs += [p for p in missing.get("desktop", ()) if p not in programs]
        if programs:
            missing[stage] = programs
    return missing


def left_out(missing: Mapping[str, Sequence[str]]) -> str:
    """One line: which stages, for want of what, and the command that installs it."""
    return (
        f"not made: {', '.join(missing)}, for want of {_names(missing)}; "
        f"install what is missing with: {_command([], _packages(missing))}"
    )


def _missing_base() -> list[str]:
    """What nothing can be made without: compilers, and a Python that makes environments."""
    base = []
    try:
        compiler.find()
    except compiler.CompilerMissingError:
        base.append("C and C++ compilers")
    if importlib.util.find_spec("ensurepip") is None:
        base.append("Python's ensurepip")
    return base


def _tell(base: Sequence[str], missing: Mapping[str, Sequence[str]]) -> None:
    if base:
        names = ", ".join([*base, *([_names(missing)] if missing else [])])
        line = f"missing: {names}; install all of it with: {_command(base, _packages(missing))}"
    else:
        line = left_out(missing).replace("not made", "will not be made", 1)
    print(f"package: {line}", file=sys.stderr)


def _names(missing: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(dict.fromkeys(p for programs in missing.values() for p in programs))


def _packages(missing: Mapping[str, Sequence[str]]) -> list[str]:
    return sorted({_PROGRAMS[s][p] for s in missing for p in missing[s] if p in _PROGRAMS[s]})


def _command(base: Sequence[str], packages: Sequence[str]) -> str:
    manager = next((name for name in _INSTALL if shutil.which(name)), None)
    wanted = list(packages)
    if "Python's ensurepip" in base:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        wanted.append(f"python{version}-venv" if manager == "apt-get" else f"python{version}")
    if "C and C++ compilers" in base:
        return " ".join([compiler.remedy(), *wanted])
    if manager is None:
        return f"this system's package manager: {' '.join(wanted)}"
    return " ".join([_INSTALL[manager], *wanted])


if __name__ == "__main__":
    sys.exit(main())
