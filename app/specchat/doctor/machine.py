"""This machine and the files of models, as benchmarks and certificates state them."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

from specchat.doctor.diagnosis import system_info
from specchat.models.growing_file import sha256_of
from specengine.files.gguf import read_gguf
from specengine.llama import library
from specengine.llama.cpu import this_cpu

_OPENMP = ("GOMP_", "OMP_", "KMP_")


class Record(BaseModel):
    """Part of a report that a file keeps: complete, and never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelInfo(Record):
    """A GGUF file. `name` is what it calls itself: padded files say there that they are."""

    file: str
    name: str
    bytes: int
    sha256: str
    quantization: str


class ModelFile(ModelInfo):
    """A GGUF file of the pair, and what its passes cost."""

    pass_s: dict[int, float]
    """Seconds of a pass by its width in tokens, measured before the run."""


class Machine(Record):
    platform: str
    cpu: str
    cores: int
    memory_bytes: int
    python: str
    llama_cpp_python: str
    llama_cpp_features: str
    """What llama.cpp's library was built for, in its own words."""
    threads: int
    openmp: dict[str, str]
    """Environment variables that control how threads wait."""


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
