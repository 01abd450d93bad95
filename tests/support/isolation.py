"""Keeps a test away from the network, from the person's folders, and from waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.models import http, package_index
from support.file_server import FileServer

_NOT_SET = (
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "HF_TOKEN",
    "HF_TOKEN_PATH",
    "LLAMA_CACHE",
    "SPECCHAT_MODELS_DIR",
    "SPECCHAT_OFFLINE",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
)


def isolate(tmp_path: Path, server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """`server` is hub and package index, every folder lies below `tmp_path`."""
    for variable in _NOT_SET:
        monkeypatch.delenv(variable, raising=False)
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    monkeypatch.setenv("OLLAMA_MODELS", str(home / "ollama"))
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path / "specchat"))
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
    monkeypatch.setattr(http, "BACKOFF_S", 0.0)
    package_index.index_url.cache_clear()
