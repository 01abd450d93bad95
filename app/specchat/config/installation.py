"""Who installed this program, and so which command builds its llama.cpp again."""

from __future__ import annotations

import importlib.metadata
import shlex
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from specengine.llama.library import LLAMA_CPP_PYTHON_VERSION
from specengine.llama.probe import ProbeResult

REQUIREMENT = f"llama-cpp-python=={LLAMA_CPP_PYTHON_VERSION}"


class Installer(StrEnum):
    """What put specchat here."""

    CHECKOUT = "make"
    PIPX = "pipx"
    UV_TOOL = "uv tool"
    UV = "uv pip"
    PIP = "pip"
    FROZEN = "a packaged program"


def installer(prefix: Path | None = None) -> Installer:
    """What installed the program that runs from the environment `prefix` (default: this one)."""
    if getattr(sys, "frozen", False):
        return Installer.FROZEN
    prefix = prefix or Path(sys.prefix)
    if (prefix / "pipx_metadata.json").exists():
        return Installer.PIPX
    if (prefix / "uv-receipt.toml").exists():
        return Installer.UV_TOOL
    if (prefix / ".ready-runtime").exists():  # packaging/setup_env.py leaves it
        return Installer.CHECKOUT
    return Installer.UV if _written_by_uv() else Installer.PIP


def rebuild_command(by: Installer, variables: Mapping[str, str] | None = None) -> str:
    """The command that builds llama.cpp again on this machine, past all caches of old wheels.

    `variables` are set for that build, as a POSIX shell takes them.
    """
    command = {
        Installer.CHECKOUT: "make clean chat",
        Installer.PIPX: "pipx runpip specchat install --force-reinstall --no-cache-dir --no-deps "
        + REQUIREMENT,
        Installer.UV_TOOL: "uv tool upgrade specchat --no-cache --reinstall-package "
        "llama-cpp-python",
        Installer.UV: f"uv pip install --python {shlex.quote(sys.executable)} --no-cache "
        f"--reinstall-package llama-cpp-python {REQUIREMENT}",
        Installer.PIP: f"{shlex.quote(sys.executable)} -m pip install --force-reinstall "
        f"--no-cache-dir --no-deps {REQUIREMENT}",
        Installer.FROZEN: "install specchat with pip or make, which build llama.cpp for this CPU",
    }[by]
    if by is Installer.FROZEN:
        return command
    settings = (f"{name}={shlex.quote(value)}" for name, value in (variables or {}).items())
    return " ".join([*settings, command])


def explain_probe(failed: ProbeResult) -> str:
    """Why llama.cpp does not work here, in one line, with what helps under this installer."""
    if not failed.remedy:
        return failed.finding
    return f"{failed.finding}; to fix it: {rebuild_command(installer())}"


def _written_by_uv() -> bool:
    try:
        written = importlib.metadata.distribution("specchat").read_text("INSTALLER")
    except importlib.metadata.PackageNotFoundError:
        return False
    return (written or "").strip() == "uv"
