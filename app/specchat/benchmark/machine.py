"""Where and with what a run was made."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

import psutil

from specchat.benchmark.report import Machine, ModelFile, ModelInfo
from specchat.doctor.diagnosis import system_info
from specchat.models.growing_file import sha256_of
from specengine.files.gguf import read_gguf
from specengine.llama import library
from specengine.llama.cpu import this_cpu

_OPENMP = ("GOMP_", "OMP_", "KMP_")


def describe_machine(threads: int) -> Machine:
    """This machine; llama.cpp's library is loaded already."""
    return Machine(
        platform=platform.platform(),
        cpu=this_cpu().model,
        cores=psutil.cpu_count(logical=False) or os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        python=platform.python_version(),
        llama_cpp_python=library.LLAMA_CPP_PYTHON_VERSION,
        llama_cpp_features=system_info(),
        threads=threads,
        openmp={name: os.environ[name] for name in sorted(os.environ) if name.startswith(_OPENMP)},
    )


def describe_file(file: Path) -> ModelInfo:
    """Reads the whole file, for its hash."""
    gguf = read_gguf(file)
    return ModelInfo(
        file=file.name,
        name=gguf.name,
        bytes=gguf.file_size,
        sha256=sha256_of(file),
        quantization=gguf.quantization,
    )


def describe_model(file: Path, pass_s: Mapping[int, float]) -> ModelFile:
    """As `describe_file`, with the seconds of a pass by its width."""
    return ModelFile(**describe_file(file).model_dump(), pass_s=dict(pass_s))
