"""What works on this machine and what does not: the checks that `specchat doctor` prints."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from specchat.config import locations
from specchat.config.installation import installer, rebuild_command
from specchat.config.settings import load_settings
from specchat.doctor.check import Check
from specchat.doctor.gpu import devices, planned
from specchat.doctor.passes import check_passes
from specchat.errors import SpecchatError
from specchat.models.memory import available_memory
from specchat.models.registry import load_registry
from specchat.models.sizes import readable_size
from specchat.models.store import ModelStore
from specengine.core.errors import SpecEngineError
from specengine.llama import environment, huge_pages, library
from specengine.llama.backends import OWN_KERNELS, packed_layouts
from specengine.llama.cpu import this_cpu
from specengine.llama.probe import ProbeResult, forget, library_folder, probe
from specengine.load.trial import forget_failed

# A spin of more rounds than this keeps a core from its other users for milliseconds.
LONG_SPIN = 100_000
LITTLE_DISK = 2_000_000_000
LITTLE_MEMORY = 1_000_000_000

_GPU_LIBRARY = re.compile(r"(?:lib)?ggml-(cuda|hip|metal|sycl|vulkan)\b")

# Leaves AMX out and keeps the other fast kernels, with any compiler.
WITHOUT_AMX = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"


def diagnose() -> Iterator[Check]:
    """All checks, each as soon as it is done; none of them raises."""
    yield check_python()
    yield check_platform()
    yield check_library()
    result = fresh_probe()
    yield check_probe(result)
    yield check_amx(result)
    yield check_kernels(result)
    yield check_threads()
    yield check_huge_pages()
    yield check_gpu(result)
    yield check_flash_attention()
    yield check_compiler()
    yield check_memory()
    yield check_disk()
    yield check_settings()
    yield check_models()
    yield check_folders()
    yield from check_passes()


def check_python() -> Check:
    return Check("Python", "ok", f"{platform.python_version()} at {sys.executable}")


def check_platform() -> Check:
    cores = psutil.cpu_count(logical=False) or os.cpu_count()
    detail = f"{platform.platform()}, {this_cpu().model}, {cores} cores"
    return Check("platform", "ok", detail)


def check_library() -> Check:
    """Whether the bindings are here in the pinned version, and where their library lies."""
    try:
        found = version("llama-cpp-python")
    except PackageNotFoundError:
        found = "not installed"
    if found == library.LLAMA_CPP_PYTHON_VERSION:
        detail = f"llama-cpp-python {found}, installed by {installer()}, in {library_folder()}"
        return Check("llama.cpp", "ok", detail)
    detail = f"llama-cpp-python is {found}; {library.LLAMA_CPP_PYTHON_VERSION} is needed"
    return Check("llama.cpp", "fail", detail, rebuild_command(installer()))


def fresh_probe() -> ProbeResult:
    """A new answer, which is also the one that is remembered from now on. Models that ended a
    process are tried anew, too.
    """
    forget(locations.cache_dir())
    forget_failed(locations.cache_dir())
    return probe(locations.cache_dir())


def check_probe(result: ProbeResult) -> Check:
    """Whether a child process could decode, and with which kernels."""
    if not result.works:
        return Check("decoding", "fail", result.finding, rebuild_command(installer()))
    if result.use_extra_bufts:
        return Check("decoding", "ok", result.finding)
    flags = {"CFLAGS": WITHOUT_AMX, "CXXFLAGS": WITHOUT_AMX} if this_cpu().announces_amx else {}
    return Check("decoding", "warn", result.finding, rebuild_command(installer(), flags))


def check_amx(result: ProbeResult) -> Check:
    """Whether matrix instructions that the CPU announces are used: prompts are read 7 times as
    fast with them. llama.cpp's own description of its build is shown as well.
    """
    info = system_info() if result.works else "unknown"
    announced = this_cpu().announces_amx
    used = result.use_extra_bufts and "AMX_INT8" in info
    words = (
        "announced" if announced else "not announced by the CPU",
        "used" if used else "not used by llama.cpp",
    )
    detail = f"AMX is {' and '.join(words)}; llama.cpp was built for {info}"
    if announced and not used and result.use_extra_bufts:
        return Check("CPU features", "warn", detail, rebuild_command(installer()))
    return Check("CPU features", "ok", detail)


def check_kernels(result: ProbeResult) -> Check:
    """Whose kernels compute narrow passes, on which the gain of every draft depends."""
    if not result.works:
        return Check("kernels", "ok", "unknown, since llama.cpp does not work")
    if OWN_KERNELS in packed_layouts(library.load()):
        detail = "specchat's own: a pass over a few tokens costs little more than over one"
        return Check("kernels", "ok", f"{detail} (SPECCHAT_KERNELS=off: without)")
    if os.environ.get("SPECCHAT_KERNELS") == "off":
        return Check("kernels", "ok", "llama.cpp's, as SPECCHAT_KERNELS=off says")
    detail = "llama.cpp's: specchat's own are in builds by make, for CPUs with AVX2 or AVX-512"
    return Check("kernels", "ok", detail)


def system_info() -> str:
    """llama.cpp's words for what its library was built for: only after the probe worked."""
    try:
        info: bytes = library.load().llama_print_system_info()
    except SpecEngineError as error:
        return str(error)
    return " ".join(re.findall(r"(\w+) = 1", info.decode())) or "no CPU features"


def check_threads() -> Check:
    """How OpenMP's threads wait: those that spin for long starve beside a busy program."""
    environment.prepare()
    policy = os.environ.get("OMP_WAIT_POLICY", "").lower()
    spin = os.environ.get("GOMP_SPINCOUNT", "")
    long = not spin.isdigit() or int(spin) > LONG_SPIN if spin else policy == "active"
    setting = f"GOMP_SPINCOUNT={spin}" if spin else f"OMP_WAIT_POLICY={policy}"
    if not long:
        return Check("threads", "ok", f"wait without long spinning ({setting})")
    detail = f"{setting} makes waiting threads spin: beside one busy program, a pass can take 100 "
    detail += "times as long"
    return Check("threads", "warn", detail, "unset OMP_WAIT_POLICY GOMP_SPINCOUNT")


def check_huge_pages() -> Check:
    """Whether weights can lie in huge pages, which speeds up every pass over one token."""
    mode = huge_pages.mode()
    if mode is None:
        return Check("huge pages", "ok", "this system has none for programs like this")
    if mode != "never":
        detail = f"weights are in pages of 2 MB where memory allows ({mode})"
        return Check("huge pages", "ok", detail)
    detail = "turned off in the kernel: answers on CPUs are about a tenth slower than with them"
    remedy = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
    return Check("huge pages", "warn", detail, remedy)


def check_gpu(result: ProbeResult) -> Check:
    """Which GPUs llama.cpp can use, and what of the profile's models is placed on them."""
    kinds = built_for_gpus()
    if not result.works or not kinds:
        detail = "no GPU is used: llama.cpp is built for CPUs only (docs/install.md, GPU=...)"
        return Check("GPU", "ok", detail)
    found = devices()
    if not found:
        detail = f"llama.cpp is built for {', '.join(kinds)}, but finds no such GPU"
        remedy = "install or start its driver; for NVIDIA, nvidia-smi must list the GPU"
        return Check("GPU", "warn", detail, remedy)
    parts = [
        f"{gpu.description}, {readable_size(gpu.free)} of {readable_size(gpu.total)} free"
        for gpu in found
    ]
    if placement := placement_of_profile():
        parts.append(placement)
    return Check("GPU", "ok", "; ".join(parts))


def built_for_gpus() -> list[str]:
    """The kinds of GPUs that this build of llama.cpp has code for: cuda, metal, vulkan..."""
    folder = library_folder()
    files = folder.glob("*ggml-*") if folder is not None else ()
    kinds = {match[1] for file in files if (match := _GPU_LIBRARY.match(file.name))}
    return sorted(kinds)


def placement_of_profile() -> str:
    """What of the models of the person's profile would be on GPUs."""
    try:
        settings = load_settings()
        registry = load_registry(locations.registry_file())
        return planned(registry.profile(settings.profile), registry, settings.gpu)
    except SpecchatError:
        return ""  # another check tells of that


def check_flash_attention() -> Check:
    detail = "off on CPUs, where it slows down passes over few tokens; on for layers on a GPU"
    return Check("flash attention", "ok", detail)


def check_compiler() -> Check:
    """What would build llama.cpp again; nobody needs it as long as the library works."""
    names = [os.environ.get("CC") or "cc", "gcc", "clang", "cl"]
    command = next((found for name in names if (found := shutil.which(name))), None)
    if command is None:
        detail = "none found; needed only to rebuild llama.cpp (docs/install.md)"
    elif Path(command).stem.lower() == "cl":
        detail = command
    else:
        output = subprocess.run(
            [command, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        detail = output.partition("\n")[0] or f"{command} does not run"
    return Check("compiler", "ok", detail)


def check_memory() -> Check:
    available, total = available_memory(), psutil.virtual_memory().total
    detail = f"{readable_size(available)} of {readable_size(total)} available"
    if available < LITTLE_MEMORY:
        return Check("memory", "warn", detail, "close other programs, or use the profile tiny")
    return Check("memory", "ok", detail)


def check_disk() -> Check:
    folder = locations.models_dir()
    free = shutil.disk_usage(nearest(folder)).free
    detail = f"{readable_size(free)} free for models at {folder}"
    if converted := sum(file.stat().st_size for file in locations.drafts_dir().glob("*.gguf")):
        detail += f", {readable_size(converted)} of converted drafts in {locations.drafts_dir()}"
    if free < LITTLE_DISK:
        remedy = (
            "specchat models rm NAME, or keep models on another disk: SPECCHAT_MODELS_DIR=FOLDER"
        )
        return Check("disk", "warn", detail, remedy)
    return Check("disk", "ok", detail)


def check_settings() -> Check:
    """Whether the person's settings and registry can be read; the error names the place."""
    file = locations.settings_file()
    try:
        settings = load_settings()
        load_registry(locations.config_dir() / "models.toml").profile(settings.profile)
    except SpecchatError as error:
        return Check("settings", "fail", str(error), f"edit {file}")
    detail = f"profile {settings.profile}, {file if file.exists() else 'no file: defaults'}"
    return Check("settings", "ok", detail)


def check_models() -> Check:
    """Which models of the registry are on this computer."""
    try:
        registry = load_registry(locations.config_dir() / "models.toml")
    except SpecchatError as error:
        return Check("models", "fail", str(error), "specchat locate")
    store = ModelStore(locations.models_dir())
    found = [model for model in registry.models.values() if store.receipt(model)]
    if any(model.head_for is None for model in found):  # a head that came along answers nothing
        names = [model.name for model in found]
        return Check("models", "ok", ", ".join(names))
    detail = "none yet; the chat downloads those of its profile when it starts"
    return Check("models", "warn", detail, "specchat models pull tiny")


def check_folders() -> Check:
    """Whether configuration, data, logs and caches can be written."""
    folders = {
        "configuration": locations.config_dir(),
        "data": locations.data_dir(),
        "logs": locations.state_dir(),
        "cache": locations.cache_dir(),
    }
    for name, folder in folders.items():
        there = nearest(folder)
        if not there.is_dir() or not os.access(there, os.W_OK):
            detail = f"{name} cannot be written: {there}"
            remedy = f"make {there} writable, or use another folder: SPECCHAT_HOME=FOLDER"
            return Check("folders", "fail", detail, remedy)
    detail = ", ".join(f"{name} {folder}" for name, folder in folders.items())
    return Check("folders", "ok", detail)


def nearest(folder: Path) -> Path:
    """`folder`, or the closest one above it that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())
