"""The wheel and the sdist, and the proof that they can be installed where nothing else is."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def build(dist: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from it, in `dist`: (wheel, sdist).

    A wheel out of the sdist shows that the sdist has all that a build needs.
    """
    hatchling = [sys.executable, "-m", "hatchling", "build", "--target"]
    subprocess.run([*hatchling, "sdist", "-d", str(dist)], cwd=ROOT, check=True)
    [sdist] = dist.glob("specchat-*.tar.gz")
    unpacked = ROOT / "build" / "package" / "sdist"
    shutil.rmtree(unpacked, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    source = unpacked / sdist.name.removesuffix(".tar.gz")
    subprocess.run([*hatchling, "wheel", "-d", str(dist)], cwd=source, check=True)
    [wheel] = dist.glob("specchat-*.whl")
    return wheel, sdist


def install(wheel: Path, llama: Path, folder: Path) -> Path:
    """A new environment in `folder` with the wheel, as docs/install.md says: its bin folder.

    `llama` is the wheel of llama-cpp-python that packaging/llama/build.py made.
    """
    python = new_environment(folder)
    pip(python, "--find-links", str(llama.parent), str(wheel))
    return python.parent


def new_environment(folder: Path) -> Path:
    """An empty environment in `folder`: its Python."""
    venv.create(folder, with_pip=True, clear=True)
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def pip(python: Path, *arguments: str) -> None:
    options = ("--quiet", "--no-input", "--disable-pip-version-check")
    subprocess.run([python, "-m", "pip", "install", *options, *arguments], check=True)
