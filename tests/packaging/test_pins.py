"""What is locked, pinned and packed agrees with itself."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import build
from specengine.llama import library

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCKS = ["requirements", "requirements-dev", "requirements-desktop", "requirements-clients"]


def locked(name: str) -> str:
    return (ROOT / f"{name}.lock").read_text("utf-8")


def pins(name: str) -> dict[str, str]:
    """Versions by the names of packages."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", locked(name), re.MULTILINE))


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=\[]", requirement)[0] for requirement in requirements}


def test_llama_cpp_python_has_one_version_everywhere() -> None:
    pin = f"llama-cpp-python=={library.LLAMA_CPP_PYTHON_VERSION}"
    assert pin in PROJECT["project"]["dependencies"]
    assert build.SOURCE.read_text("utf-8").split()[0] == pin


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_name_versions_and_hashes_but_no_host_and_no_llama(lock: str) -> None:
    assert names(PROJECT["project"]["dependencies"]) - pins(lock).keys() == {"llama-cpp-python"}
    assert "://" not in locked(lock)
    entries = re.split(r"\n(?=\S)", locked(lock).partition("\n#    make lock\n")[2])
    assert all("--hash=sha256:" in entry for entry in entries)


@pytest.mark.parametrize(
    ("lock", "more"),
    [
        ("requirements", {"hatchling", "editables", "diskcache"}),
        ("requirements-dev", {"pytest", "mypy", "ruff", "hatchling"}),
        ("requirements-desktop", {"pyinstaller"}),
        ("requirements-clients", {"anthropic", "litellm", "llm", "ollama", "openai"}),
    ],
)
def test_every_lock_has_the_programs_versions_and_what_it_is_for(lock: str, more: set[str]) -> None:
    runtime, here = pins("requirements"), pins(lock)
    assert more <= here.keys()
    builds = {"requirements-desktop", "requirements-clients"}.isdisjoint({lock})
    shared = runtime.keys() if builds else runtime.keys() & here.keys()
    assert {name: here.get(name) for name in shared} == {name: runtime[name] for name in shared}


def test_every_dependency_is_explained() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    groups = [PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"].values()]
    assert [name for group in groups for name in names(group) if f"`{name}`" not in text] == []


@pytest.mark.slow
def test_the_wheel_carries_the_probe_model_and_the_registry(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [wheel] = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"specengine/llama/probe.gguf", "specchat/models.toml", "specchat/cli/main.py"} <= names
    assert {f"specchat/benchmark/{name}.jsonl" for name in ("prompts", "chats")} <= names
    assert not any(name.startswith(("app/", "engine/", "tests/")) for name in names)
