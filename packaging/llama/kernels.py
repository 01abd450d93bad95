"""llama.cpp with the kernels for one kind of CPU, so that tests see others than this one.

    python packaging/llama/kernels.py              the names that this CPU can execute, one a line
    python packaging/llama/kernels.py haswell      a folder of llama.cpp's libraries with these

The folder is what LLAMA_CPP_LIB_PATH takes; llama-cpp-python's own bindings stay. The kernels are
those of the portable build, which is made first where there is none yet (330 compile steps); the
name `generic` stands for a build of 83 steps with one kind of kernels, those that llama.cpp takes
where it is not told the CPU: on x86-64 the same as `haswell`, AVX2 without AVX-512.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import build
from build import BuildError
from compiler import CompilerMissingError
from progress import Progress

GENERIC = "generic"
_LIBRARIES = PurePosixPath("llama_cpp/lib")  # within a wheel
_BASE = re.compile(r"(?:lib)?ggml-base\.(?:so|dll|dylib)")
_KERNELS = re.compile(r"(?:lib)?ggml-cpu(?:-(?P<name>.+))?\.(?:so|dll)")


class KernelsError(Exception):
    """There are no such kernels for this CPU; the message names those that there are."""


def folder(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """The libraries with the kernels `name`, and no others. Raises KernelsError for a name that
    this CPU cannot execute or that does not exist, BuildError and CompilerMissingError.
    """
    wheel = _wheel(name == GENERIC, environ)
    everything = unpacked(wheel)
    found = executable(everything)
    if name not in found:
        known = [*found, *([] if name == GENERIC else [GENERIC])]
        raise KernelsError(f"this CPU has no kernels {name!r}; it can execute: {', '.join(known)}")
    return only(found[name], everything.with_name(f"kernels-{name}"))


def executable(libraries: Path) -> dict[str, Path]:
    """The kernels in a folder of libraries that this CPU can execute, by name, as ggml sees it."""
    for base in libraries.iterdir():
        if _BASE.fullmatch(base.name):
            ctypes.CDLL(str(base))  # which kernels find only where it is loaded already
    found = {}
    for file in sorted(libraries.iterdir()):
        if (match := _KERNELS.fullmatch(file.name)) and _runs_here(file):
            found[match["name"] or GENERIC] = file
    return found


def _runs_here(kernels: Path) -> bool:
    """What the library's own look at the CPU says; those without one run everywhere."""
    score = getattr(ctypes.CDLL(str(kernels)), "ggml_backend_score", None)
    return score is None or score() > 0


def unpacked(wheel: Path) -> Path:
    """The folder beside a wheel with its libraries, all of them or not there."""
    final = wheel.with_name("libraries")
    if not final.exists():
        with tempfile.TemporaryDirectory(dir=wheel.parent) as temporary:
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.infolist():
                    if PurePosixPath(member.filename).parent == _LIBRARIES:
                        archive.extract(member, temporary)
            _move(Path(temporary, _LIBRARIES), final)
    return final


def only(kernels: Path, target: Path) -> Path:
    """A copy of the libraries around `kernels` as the folder `target`, without other kernels."""
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
            copy = Path(temporary, "libraries")
            copy.mkdir()
            for file in kernels.parent.iterdir():
                if file == kernels or not _KERNELS.fullmatch(file.name):
                    shutil.copy2(file, copy)
            _move(copy, target)
    return target


def _move(whole: Path, target: Path) -> None:
    """Give a folder its final name. Where another process was quicker, its folder is as good."""
    with contextlib.suppress(OSError):
        whole.rename(target)


def _wheel(generic: bool, environ: Mapping[str, str]) -> Path:
    if generic:
        given = environ.get("CMAKE_ARGS", "")
        environ = {**environ, "CMAKE_ARGS": f"{given} -DGGML_CPU_ALL_VARIANTS=OFF".strip()}
    return build.obtain_wheel("", environ, Progress(), portable=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", help="of the kernels; none lists them")
    name = parser.parse_args().name
    try:
        lines = [folder(name)] if name else executable(unpacked(_wheel(False, os.environ)))
    except (KernelsError, BuildError, CompilerMissingError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
