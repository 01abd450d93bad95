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
LOCKS = [ROOT / "requirements.lock", ROOT / "requirements-dev.lock"]


def requirement_names(text: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))


def test_llama_cpp_python_has_one_version_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pin = f"llama-cpp-python=={library.LLAMA_CPP_PYTHON_VERSION}"
    assert pin in project["dependencies"]
    assert build.SOURCE.read_text("utf-8").split()[0] == pin


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_locks_name_versions_and_hashes_but_no_host_and_no_llama(lock: Path) -> None:
    text = lock.read_text("utf-8")
    names = requirement_names(text)
    assert {"textual", "click", "numpy", "hatchling", "editables", "diskcache"} <= names
    assert "llama-cpp-python" not in names
    assert "://" not in text
    entries = re.split(r"\n(?=\S)", text.partition("\n#    make lock\n")[2])
    assert all("--hash=sha256:" in entry for entry in entries)


def test_the_tests_lock_contains_the_programs() -> None:
    runtime, dev = (lock.read_text("utf-8") for lock in LOCKS)
    pins = re.findall(r"^\S+==\S+", runtime, re.MULTILINE)
    assert set(pins) <= set(re.findall(r"^\S+==\S+", dev, re.MULTILINE))
    assert requirement_names(dev) - requirement_names(runtime) >= {"pytest", "mypy", "ruff"}


def test_the_desktop_build_has_the_programs_versions_and_what_packs_them() -> None:
    runtime, desktop = (
        set(re.findall(r"^([a-z0-9-]+)==(\S+)", path.read_text("utf-8"), re.MULTILINE))
        for path in (ROOT / "requirements.lock", ROOT / "requirements-desktop.lock")
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    direct = {re.split(r"[<>=\[]", each)[0] for each in project["dependencies"]}
    names = {name for name, _ in desktop}
    assert direct - {"llama-cpp-python"} <= names
    known = {name for name, _ in runtime}
    assert {pin for pin in desktop if pin[0] in known} <= runtime
    assert "pyinstaller" in names
    assert "://" not in (ROOT / "requirements-desktop.lock").read_text("utf-8")


def test_the_clients_are_locked_with_hashes() -> None:
    text = (ROOT / "requirements-clients.lock").read_text("utf-8")
    assert {"anthropic", "ollama", "openai"} <= requirement_names(text)
    assert "--hash=sha256:" in text
    assert "://" not in text


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    text = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    requirements = [*project["project"]["dependencies"]]
    for group in project["dependency-groups"].values():
        requirements += group
    names = {re.split(r"[<>=\[]", requirement)[0] for requirement in requirements}
    assert {name for name in names if f"`{name}`" not in text} == set()


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
