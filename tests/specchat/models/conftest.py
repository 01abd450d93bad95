"""A loopback server, an empty home folder, and a small model to serve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from specchat.models.http import new_client
from support.file_server import FileServer, file_server
from support.gguf_files import write_gguf
from support.isolation import isolate


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as server:
        yield server


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with new_client() as client:
        yield client


@pytest.fixture(scope="session")
def small_gguf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    return write_gguf(path, n_tensors=400).read_bytes()


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, server, monkeypatch)
