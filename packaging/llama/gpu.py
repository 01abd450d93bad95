"""Builds of llama.cpp for GPUs: what each kind needs, and what to say before a long compile."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


class GpuError(Exception):
    """No such build, or its toolkit is missing; the message says what to do."""


@dataclass(frozen=True)
class Toolkit:
    """What a kind of GPU needs. `define` turns llama.cpp's backend on; `remedies` are commands by
    package manager or platform, `address` is where the maker says it for all others.
    """

    define: str
    name: str
    programs: tuple[str, ...]
    remedies: Mapping[str, str]
    address: str
    compilers: tuple[str, str] | None = None
    """C and C++ compilers that take the place of the platform's."""
    systems: tuple[str, ...] = ("Linux", "Windows")


TOOLKITS = {
    "cuda": Toolkit(
        "GGML_CUDA",
        "NVIDIA's CUDA toolkit",
        ("nvcc",),
        {
            "apt-get": "sudo apt-get install nvidia-cuda-toolkit",
            "pacman": "sudo pacman -S cuda",
            "Windows": "winget install Nvidia.CUDA",
        },
        "https://developer.nvidia.com/cuda-downloads",
    ),
    "vulkan": Toolkit(
        "GGML_VULKAN",
        "the Vulkan SDK",
        ("glslc",),
        {
            "apt-get": "sudo apt-get install libvulkan-dev glslc spirv-headers",
            "dnf": "sudo dnf install vulkan-loader-devel vulkan-headers glslc spirv-headers-devel",
            "pacman": "sudo pacman -S --needed vulkan-headers vulkan-icd-loader shaderc"
            " spirv-headers",
            "Windows": "winget install KhronosGroup.VulkanSDK",
        },
        "https://vulkan.lunarg.com/sdk/home",
        systems=("Linux", "Windows", "Darwin"),
    ),
    "metal": Toolkit(
        "GGML_METAL", "Xcode's command line tools", ("xcrun",), {}, "", systems=("Darwin",)
    ),
    "rocm": Toolkit(
        "GGML_HIP",
        "AMD's HIP SDK, version 6.1 or newer",
        ("hipcc", "hipconfig"),
        {"pacman": "sudo pacman -S rocm-hip-sdk"},
        "https://rocm.docs.amd.com",
    ),
    "sycl": Toolkit(
        "GGML_SYCL",
        "Intel's oneAPI toolkit",
        ("icx", "icpx"),
        {},
        "https://www.intel.com/oneapi (then run its setvars script in this shell)",
        compilers=("icx", "icpx"),
    ),
}

# Where toolkits install their programs without putting them on PATH.
_OTHER_FOLDERS = {"nvcc": ("/usr/local/cuda/bin", "/opt/cuda/bin"), "hipcc": ("/opt/rocm/bin",)}
_OTHER_FOLDERS["hipconfig"] = _OTHER_FOLDERS["hipcc"]
# Variables that name a program, or the folder of its toolkit.
_VARIABLES = {
    "nvcc": ("CUDACXX", "CUDA_PATH"),
    "hipcc": ("", "HIP_PATH"),
    "glslc": ("", "VULKAN_SDK"),
}
_VARIABLES["hipconfig"] = _VARIABLES["hipcc"]


def toolkit(gpu: str) -> Toolkit:
    """Raises GpuError for a kind that there is not."""
    if gpu not in TOOLKITS:
        raise GpuError(f"GPU={gpu} is none of {', '.join(TOOLKITS)}: name one of these, or none")
    return TOOLKITS[gpu]


def require(gpu: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables to build for `gpu` with, beside those of `environ`.

    Raises GpuError where its toolkit is missing, or this system has no such GPUs.
    """
    needed = toolkit(gpu)
    if platform.system() not in needed.systems:
        others = ", ".join(
            name for name, kit in TOOLKITS.items() if platform.system() in kit.systems
        )
        raise GpuError(f"GPU={gpu} does not exist on {platform.system()}: name one of {others}")
    found = {name: _find(name, environ) for name in needed.programs}
    if missing := [name for name, path in found.items() if path is None]:
        raise GpuError(
            f"GPU={gpu} needs {needed.name}, but {' and '.join(missing)} cannot be found; "
            f"install it: {remedy(gpu)}"
        )
    if gpu == "cuda" and "CUDACXX" not in environ:
        return {"CUDACXX": str(found["nvcc"])}  # CMake looks for it on PATH alone
    if gpu == "rocm" and "HIPCXX" not in environ:
        # As AMD's compiler is no part of PATH either.
        hipconfig = str(found["hipconfig"])
        return {
            "HIPCXX": str(Path(_output(hipconfig, "-l"), "clang")),
            "HIP_PATH": environ.get("HIP_PATH") or _output(hipconfig, "-R"),
        }
    return {}


def remedy(gpu: str) -> str:
    """How its toolkit is installed here: a command, or an address."""
    kit = TOOLKITS[gpu]
    if platform.system() == "Darwin" and gpu == "metal":
        return "xcode-select --install"
    if platform.system() == "Linux":
        commands = (command for name, command in kit.remedies.items() if shutil.which(name))
        return next(commands, kit.address)
    return kit.remedies.get(platform.system(), kit.address)


def _find(program: str, environ: Mapping[str, str]) -> Path | None:
    own, folder = _VARIABLES.get(program, ("", ""))
    if environ.get(own):
        return Path(environ[own])
    folders = [*_OTHER_FOLDERS.get(program, ())]
    if environ.get(folder):
        folders.insert(0, str(Path(environ[folder], "bin")))
    path = os.pathsep.join([environ.get("PATH", ""), *folders])
    found = shutil.which(program, path=path)
    return Path(found) if found else None


def _output(*command: str) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stdout.strip()
