"""Finds out in a child process whether llama.cpp can decode here, before a model is loaded.

A library built for another CPU, or by a compiler that gets AMX wrong, ends the process with an
illegal instruction at its first pass. Whether it does depends on who built it and on the CPU
(hypervisors announce AMX and then refuse it), so only a run tells; its answer is remembered.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from specengine.llama import library
from specengine.llama.child import ChildEnd, run_child
from specengine.llama.cpu import this_cpu
from specengine.llama.kept_json import read_kept, write_kept

CACHE_FILE = "llama-probe.json"
TIMEOUT_S = 60.0  # of a run that takes half a second

# Repacked kernels round a little differently; wrong ones are off by whole standard deviations.
TOLERANCE = 0.1


class ProbeResult(BaseModel):
    """What llama.cpp can do here. `remedy` is the command that mends it where it needs mending."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    works: bool
    use_extra_bufts: bool
    finding: str
    remedy: str = ""

    @property
    def detail(self) -> str:
        """One line for a person, with what to do."""
        return f"{self.finding}; to fix it: {self.remedy}" if self.remedy else self.finding


class _Stage(BaseModel):
    """A line of the child's output: it survived this way of loading."""

    stage: Literal["plain", "extra"]
    logits: list[float]


class _Cache(RootModel[dict[str, ProbeResult]]):
    """Results under the key of the library and CPU that they hold for."""


def probe(
    cache_folder: Path, *, command: Sequence[str] | None = None, timeout_s: float = TIMEOUT_S
) -> ProbeResult:
    """Whether llama.cpp decodes on this machine, and whether with `use_extra_bufts`.

    Answers at once from `cache_folder` where the same library ran on the same CPU before, else
    runs a child (half a second). `command` starts the child where `sys.executable` is no Python:
    a frozen program passes a command of its own that calls `probe_child.main`. llama.cpp is never
    loaded into this process.
    """
    file = cache_folder / CACHE_FILE
    key = build_key()
    if key is None:
        return _fails("llama-cpp-python is not installed", library.INSTALL)
    cache = read_kept(file, _Cache({}))
    if known := cache.root.get(key):
        return known
    try:
        end = run_child(
            command or [sys.executable, "-m", "specengine.llama.probe_child"], timeout_s
        )
    except OSError as error:
        end = ChildEnd(error=str(error), lasting=False)
    result = judge(end)
    if end.lasting and result.works:
        write_kept(file, _Cache({**cache.root, key: result}))
    return result


def judge(end: ChildEnd) -> ProbeResult:
    """What the child's output and end mean."""
    logits = _stages(end.stdout)
    plain, extra = logits.get("plain"), logits.get("extra")
    if plain is None and end.error is not None:
        return _fails(f"llama.cpp cannot be tested: {end.error}")
    if plain is None or not np.isfinite(plain).all():
        return _fails(f"llama.cpp {end.death or 'computes nothing'} on this CPU", library.REBUILD)
    if extra is None:
        problem = end.death or "fails"
    elif (error := relative_error(plain, extra)) > TOLERANCE:
        problem = f"computes wrong numbers (off by {error:.2g})"
    else:
        finding = "llama.cpp works, with its fast kernels"
        return ProbeResult(works=True, use_extra_bufts=True, finding=finding)
    return ProbeResult(
        works=True,
        use_extra_bufts=False,
        finding=(
            "llama.cpp works without its fast kernels only, so answers are slower: with them it "
            f"{problem}"
        ),
        remedy=f"CC=clang CXX=clang++ {library.REBUILD}",
    )


def relative_error(expected: Sequence[float], actual: Sequence[float]) -> float:
    """Root mean square difference over the standard deviation of `expected`; inf if not finite."""
    a, b = np.array(expected), np.array(actual)
    if a.shape != b.shape or not np.isfinite(b).all():
        return float("inf")
    return float(np.sqrt(np.square(a - b).mean()) / a.std())


def _fails(finding: str, remedy: str = "") -> ProbeResult:
    return ProbeResult(works=False, use_extra_bufts=False, finding=finding, remedy=remedy)


def _stages(output: bytes) -> dict[str, list[float]]:
    """The logits of each stage; a line that was cut off by the child's death is no stage."""
    result: dict[str, list[float]] = {}
    for line in output.splitlines():
        try:
            stage = _Stage.model_validate_json(line)
        except ValidationError:
            continue
        result[stage.stage] = stage.logits
    return result


def library_folder() -> Path | None:
    """Where llama.cpp's libraries lie, found without importing anything; None: not installed."""
    if own := os.environ.get("LLAMA_CPP_LIB_PATH"):
        return Path(own)
    spec = importlib.util.find_spec("llama_cpp")
    return Path(spec.origin).parent / "lib" if spec and spec.origin else None


def build_key() -> str | None:
    """Of llama.cpp's library, its kernels and this CPU: what was found with one holds for no other.
    None where the library is missing.
    """
    folder = library_folder()
    if folder is None:
        return None
    try:
        version = importlib.metadata.version("llama-cpp-python")
    except importlib.metadata.PackageNotFoundError:
        version = ""  # a frozen program carries no metadata
    cpu = this_cpu()
    files = sorted((f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in folder.glob("*"))
    switch = os.environ.get("SPECCHAT_KERNELS", "")
    parts = [version, str(folder), files, cpu.model, sorted(cpu.features), switch]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def forget(cache_folder: Path) -> None:
    """Make the next probe a run, whatever is remembered."""
    with contextlib.suppress(OSError):
        (cache_folder / CACHE_FILE).unlink()
