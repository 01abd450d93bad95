from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.verify_server import VerifyServer, running_server


@pytest.fixture(scope="module")
def server(tiny_model: Path) -> Iterator[VerifyServer]:
    with running_server(tiny_model) as running:
        yield running


@pytest.fixture
def client(server: VerifyServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client
