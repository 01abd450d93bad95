"""A loopback server, an empty home folder, and a small model to serve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.models import http
from support.file_server import FileServer, file_server
from support.gguf_files import write_gguf


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as server:
        yield server


@pytest.fixture(scope="session")
def small_gguf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "small.gguf", n_tensors=400).read_bytes()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reaches the network, the person's folders, or waits between attempts."""
    for variable in ("HF_HOME", "HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE", "LLAMA_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home/.cache"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "home/ollama"))
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path / "specchat"))
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
    for variable in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "SPECCHAT_MODELS_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(http, "BACKOFF_S", 0.0)
    from specchat.models import package_index

    package_index.index_url.cache_clear()
