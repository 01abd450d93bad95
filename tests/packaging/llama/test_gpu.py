"""GPU builds: the right flags, and one line before the compile where something is missing."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import build
import compiler
import gpu as gpus
from compiler import Compiler
from gpu import GpuError
from support.programs import Programs

BUILD = Path(gpus.__file__).with_name("build.py")

posix = pytest.mark.skipif(sys.platform == "win32", reason="programs here are shell scripts")


@pytest.fixture(autouse=True)
def _linux(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux, and no toolkit beside the PATH."""
    monkeypatch.setattr(gpus, "_OTHER_FOLDERS", {})
    monkeypatch.setattr(platform, "system", lambda: "Linux")


def environ(programs: Programs, **more: str) -> dict[str, str]:
    return {"PATH": str(programs.folder), **more}


@posix
@pytest.mark.parametrize(
    ("gpu", "missing", "manager", "says"),
    [
        ("cuda", "nvcc", "apt-get", "install it: sudo apt-get install nvidia-cuda-toolkit"),
        ("cuda", "nvcc", "dnf", "install it: https://developer.nvidia.com/cuda-downloads"),
        ("vulkan", "glslc", "pacman", "install it: sudo pacman -S --needed vulkan-headers"),
        ("rocm", "hipcc and hipconfig", "apt-get", "install it: https://rocm.docs.amd.com"),
        ("sycl", "icx and icpx", "apt-get", "run its setvars script"),
    ],
)
def test_a_missing_toolkit_is_named_with_what_installs_it(
    programs: Programs, gpu: str, missing: str, manager: str, says: str
) -> None:
    programs.add(manager)
    with pytest.raises(GpuError) as caught:
        gpus.require(gpu, environ(programs))
    message = str(caught.value)
    assert f"but {missing} cannot be found" in message
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("system", "gpu", "says"),
    [
        ("Linux", "metal", "GPU=metal does not exist on Linux: name one of cuda, vulkan, rocm"),
        ("Darwin", "cuda", "GPU=cuda does not exist on Darwin: name one of vulkan, metal"),
    ],
)
def test_gpus_that_a_system_does_not_have(
    monkeypatch: pytest.MonkeyPatch, system: str, gpu: str, says: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    with pytest.raises(GpuError, match=says):
        gpus.require(gpu, {})


@posix
def test_nvcc_is_found_where_nvidia_puts_it_and_told_to_cmake(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cuda/bin"
    folder.mkdir(parents=True)
    Programs(folder).add("nvcc")
    nvcc = folder / "nvcc"
    monkeypatch.setattr(gpus, "_OTHER_FOLDERS", {"nvcc": (str(folder),)})
    assert gpus.require("cuda", environ(programs)) == {"CUDACXX": str(nvcc)}
    monkeypatch.setattr(gpus, "_OTHER_FOLDERS", {})
    of_variable = environ(programs, CUDA_PATH=str(folder.parent))
    assert gpus.require("cuda", of_variable) == {"CUDACXX": str(nvcc)}
    assert gpus.require("cuda", environ(programs, CUDACXX="/my/nvcc")) == {}, "a person's own"


@posix
def test_amds_compiler_is_asked_for(programs: Programs) -> None:
    programs.add("hipcc")
    programs.add("hipconfig", script='[ "$1" = -l ] && echo /rocm/llvm/bin || echo /rocm')
    assert gpus.require("rocm", environ(programs)) == {
        "HIPCXX": "/rocm/llvm/bin/clang",
        "HIP_PATH": "/rocm",
    }


@posix
def test_what_a_toolkit_needs_reaches_the_build(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.add("nvcc")
    nvcc = str(programs.folder / "nvcc")
    gcc = Compiler("cc", "c++", "gcc", {})
    monkeypatch.setattr(compiler, "find", lambda *_: gcc)
    compilers, variables = build.check("cuda", environ(programs))
    assert build.build_environment(compilers, "cuda", variables)["CUDACXX"] == nvcc
    other = {**variables, "CUDACXX": "/usr/local/cuda-13/bin/nvcc"}
    assert build.wheel_key(gcc, "cuda", variables) != build.wheel_key(gcc, "cuda", other)


@posix
def test_sycl_is_compiled_by_intels_own(programs: Programs) -> None:
    programs.add("icx", "icpx", "cc", "c++")
    compilers, _ = build.check("sycl", environ(programs))
    assert (compilers.cc, compilers.cxx) == ("icx", "icpx")


@pytest.mark.parametrize("gpu", ["voodoo", "CUDA"])
def test_an_unknown_kind_is_one_line_and_builds_nothing(tmp_path: Path, gpu: str) -> None:
    done = subprocess.run(
        [sys.executable, str(BUILD), "--gpu", gpu],
        env={**os.environ, "SPECCHAT_WHEEL_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"GPU={gpu} is none of cuda, vulkan, metal, rocm, sycl: name one of these, or none\n"
    )
    assert not (tmp_path / "cache").exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is missing")
def test_make_says_so_before_anything_is_made(tmp_path: Path) -> None:
    root = BUILD.parents[2]
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(root / name, tmp_path)
    shutil.copytree(root / "packaging", tmp_path / "packaging")
    done = subprocess.run(
        ["make", "chat", "GPU=voodoo", f"PYTHON={sys.executable}"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr.startswith("specchat: GPU=voodoo is none of cuda, vulkan, metal, rocm, sycl")
    assert not (tmp_path / ".venv").exists()
