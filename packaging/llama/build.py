"""Builds the llama-cpp-python wheel for this machine, or finds the one that was built before.

    python packaging/llama/build.py [--gpu cuda|vulkan|metal|rocm|sycl] [--portable]

prints the wheel's path; everything else goes to standard error. Only the standard library is
needed. The wheel is kept outside the checkout under a key of all that it depends on, because
pip's own cache ignores flags, compiler and CPU and would hand out a wheel that does not fit.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

import compiler
import gpu as gpus
from compiler import Compiler, CompilerMissingError
from gpu import GpuError
from progress import Progress, stage_of

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "source.txt"  # the pinned version and the hash of its source archive
TRIM = HERE / "trim.cmake"
AMX_HEADER = HERE / "amx_tile_config.h"
KERNELS = HERE.parents[1] / "engine" / "kernels"  # added to the CPU's by trim.cmake

# A build to hand to others: nothing of the CPU that compiles it, and kernels for many CPUs, each in
# a library of its own beside the others, of which the best that runs is taken at the start.
PORTABLE_DEFINES = {
    "GGML_NATIVE": "OFF",
    "GGML_BACKEND_DL": "ON",
    "GGML_CPU_ALL_VARIANTS": "ON",
    "CMAKE_INSTALL_BINDIR": "llama_cpp/lib",
}

# A person's own settings for compilers and CMake: pip passes them on, so the key has them too.
BUILD_VARIABLES = (
    "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CMAKE_ARGS", "CMAKE_GENERATOR",
    "CUDACXX", "CUDAFLAGS", "HIPCXX", "MACOSX_DEPLOYMENT_TARGET",
)  # fmt: skip


EXCERPT_LINES = 12
FIRST_ERROR = re.compile(r"error: |CMake Error|FAILED: ", re.IGNORECASE)


class BuildError(Exception):
    """The wheel could not be built; the message says why and what to do."""


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where built wheels are kept: SPECCHAT_WHEEL_CACHE, or the platform's cache folder."""
    if own := environ.get("SPECCHAT_WHEEL_CACHE"):
        return Path(own).expanduser().absolute()
    if platform.system() == "Windows":
        base = Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local")
    elif platform.system() == "Darwin":
        base = Path.home() / "Library/Caches"
    else:
        base = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "specchat" / "wheels"


def cmake_defines(compilers: Compiler, gpu: str, portable: bool = False) -> dict[str, str]:
    """The settings of this build. Paths have forward slashes, which every platform takes."""
    defines = {"CMAKE_PROJECT_llama_cpp_INCLUDE": TRIM.as_posix(), "LLAVA_BUILD": "OFF"}
    if compilers.gets_amx_wrong and (portable or compilers.aims_at_amx):
        defines["SPECCHAT_AMX_HEADER"] = AMX_HEADER.as_posix()
    if gpu:
        defines[gpus.toolkit(gpu).define] = "ON"
    if portable:
        defines |= PORTABLE_DEFINES
    return defines


def sources() -> list[Path]:
    """The files that the wheel is built from, or that say how."""
    kernels = (file for file in KERNELS.rglob("*") if file.suffix in (".cmake", ".cpp", ".h"))
    return [SOURCE, TRIM, AMX_HEADER, *sorted(kernels)]


def wheel_key(
    compilers: Compiler, gpu: str, environ: Mapping[str, str], portable: bool = False
) -> str:
    """A name for all that the wheel depends on. Where the checkout lies makes no difference, nor
    which Python it is: the bindings are loaded through ctypes and the wheel is tagged py3-none.
    """
    defines = cmake_defines(compilers, gpu, portable)
    parts = {
        "files": [file.read_text("utf-8") for file in sources()],
        "defines": {name: Path(value).name for name, value in defines.items()},
        "compilers": compilers.identity,
        "environment": {name: environ.get(name, "") for name in BUILD_VARIABLES},
        "platform": sysconfig.get_platform(),
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    version = SOURCE.read_text("utf-8").split()[0].partition("==")[2]
    return f"{version}-{gpu or 'cpu'}-{digest[:16]}"


def build_environment(
    compilers: Compiler, gpu: str, environ: Mapping[str, str], portable: bool = False
) -> dict[str, str]:
    """The environment for pip: ours first in CMAKE_ARGS, so that a person's own outrank them."""
    defines = cmake_defines(compilers, gpu, portable)
    arguments = shlex.join(f"-D{name}={value}" for name, value in defines.items())
    result = dict(environ)
    result["CMAKE_ARGS"] = f"{arguments} {environ.get('CMAKE_ARGS', '')}".strip()
    if compilers.cc and compilers.cxx:
        result["CC"], result["CXX"] = compilers.cc, compilers.cxx
    return result


def pip_command(folder: Path) -> list[str]:
    """pip, building the pinned source archive into `folder` without its flag-blind cache."""
    return [
        *(sys.executable, "-m", "pip", "wheel", "--verbose", "--no-input"),
        *("--disable-pip-version-check", "--no-deps", "--no-cache-dir", "--require-hashes"),
        *("--wheel-dir", str(folder), "--requirement", str(SOURCE)),
    ]


def run(command: list[str], environ: Mapping[str, str], log: Path, progress: Progress) -> bool:
    """Run the build, its whole output to `log`; whether it succeeded."""
    with (
        log.open("w", encoding="utf-8") as whole,
        subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            whole.write(line)
            if stage := stage_of(line):
                progress.show(*stage)
    progress.close()
    return process.returncode == 0


def failure(output: str, gpu: str, log: Path) -> BuildError:
    """What to tell of a build that failed: the lines from the first error on, and what to do."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [i for i, line in enumerate(lines) if FIRST_ERROR.search(line)]
    start = errors[0] if errors else max(0, len(lines) - EXCERPT_LINES)
    excerpt = "\n".join(f"  {line[:200]}" for line in lines[start : start + EXCERPT_LINES])
    if "*** Configuring CMake" not in output:
        advice = "check the network connection and try again"
    elif gpu:
        advice = f"GPU={gpu} needs the whole of {gpus.toolkit(gpu).name}: {gpus.remedy(gpu)}"
    else:
        advice = f"if its compilers are not whole: {compiler.remedy()}"
    return BuildError(f"{excerpt}\nllama.cpp did not build: {advice}. Whole output: {log}")


def check(gpu: str, environ: Mapping[str, str]) -> tuple[Compiler, Mapping[str, str]]:
    """The compilers and the environment to build with. Raises GpuError, CompilerMissingError."""
    if gpu:
        environ = {**environ, **gpus.require(gpu, environ)}
    return compiler.find(environ, gpus.toolkit(gpu).compilers if gpu else None), environ


def obtain_wheel(
    gpu: str, environ: Mapping[str, str], progress: Progress, portable: bool = False
) -> Path:
    """The wheel for this machine, or a portable one, built now if there is none yet.

    It is built in a folder that takes its final name only when the wheel is whole, so that a
    build that was cut off leaves nothing that looks finished. Raises BuildError, GpuError and
    CompilerMissingError.
    """
    compilers, environ = check(gpu, environ)
    cache = cache_folder(environ)
    final = cache / wheel_key(compilers, gpu, environ, portable)
    if found := next(final.glob("*.whl"), None):
        return found
    cache.mkdir(parents=True, exist_ok=True)
    log = cache / "last-build.log"
    with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as temporary:
        folder = Path(temporary, "wheel")
        folder.mkdir()
        environment = build_environment(compilers, gpu, environ, portable)
        if not run(pip_command(folder), environment, log, progress):
            raise failure(log.read_text("utf-8"), gpu, log)
        # Where another build of the same key was quicker, its wheel is as good.
        with contextlib.suppress(OSError):
            folder.rename(final)
    return next(final.glob("*.whl"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu", default=os.environ.get("GPU", ""), help="default: $GPU")
    parser.add_argument("--portable", action="store_true", help="for any CPU of this architecture")
    parser.add_argument(
        "--check", action="store_true", help="only whether all is here that a build needs"
    )
    options = parser.parse_args()
    try:
        if options.check:
            check(options.gpu, os.environ)
        else:
            print(obtain_wheel(options.gpu, os.environ, Progress(), options.portable))
    except (BuildError, GpuError, CompilerMissingError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
