"""Loading llama.cpp: late, once, and with one line where it cannot be."""

from __future__ import annotations

import importlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from specengine.core.errors import BackendError
from specengine.llama import library


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that was not loaded yet."""
    monkeypatch.setattr(library, "_module", None)


def test_importing_the_engine_does_not_load_llama() -> None:
    code = (
        "import sys, specengine.llama.model, specengine.llama.probe; "
        "print('llama_cpp' in sys.modules)"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout == "False\n"


def test_threads_get_one_module() -> None:
    with ThreadPoolExecutor(4) as pool:
        modules = set(pool.map(lambda _: library.load(), range(8)))
    assert len(modules) == 1
    assert modules.pop().__version__ == library.LLAMA_CPP_PYTHON_VERSION


def test_llamas_own_reason_is_kept(tmp_path: Path) -> None:
    llama = library.load()
    library.clear_errors()
    assert library.last_error() == "llama.cpp gave no reason"
    (tmp_path / "page.gguf").write_text("<html>")
    params = llama.llama_model_default_params()
    assert not llama.llama_model_load_from_file(str(tmp_path / "page.gguf").encode(), params)
    assert any("invalid magic" in line for line in library.last_errors())


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            ModuleNotFoundError("No module named 'llama_cpp'", name="llama_cpp"),
            "llama_cpp is not installed; install it with: python -m pip install "
            "llama-cpp-python==0.3.36",
        ),
        (
            RuntimeError("Failed to load shared library 'x.so':\n not ELF"),
            "llama.cpp's library cannot be loaded (Failed to load shared library 'x.so': not ELF)"
            "; rebuild it with: python -m pip install llama-cpp-python==0.3.36 "
            "--force-reinstall --no-cache-dir --no-deps",
        ),
    ],
)
def test_a_library_that_cannot_be_loaded_is_one_line_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, error: Exception, line: str
) -> None:
    def fail(name: str) -> ModuleType:
        raise error

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(BackendError) as caught:
        library.load()
    assert str(caught.value) == line


@pytest.mark.usefixtures("fresh")
def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("llama_cpp")
    other.__dict__["__version__"] = "0.3.35"
    monkeypatch.setattr(importlib, "import_module", lambda name: other)
    with pytest.raises(BackendError, match=r"is 0\.3\.35, but exactly 0\.3\.36 is needed"):
        library.load()
