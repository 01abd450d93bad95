"""Offline nothing is connected to: shown with the ways out of this computer shut."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from specchat.errors import SpecchatError
from support.remote_chat import ask, remote_runtime


@pytest.fixture(autouse=True)
def _shut(monkeypatch: pytest.MonkeyPatch) -> None:
    def connection(*_: object, **__: object) -> None:
        raise AssertionError("a connection was made")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, connection)
    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        monkeypatch.setattr(socket, name, connection)


async def test_a_model_that_is_here_answers(tiny_model: Path, own_home: Path) -> None:
    async with remote_runtime(tiny_model, "lookup", offline=True) as runtime:
        finished = await ask(runtime, max_tokens=5)
    assert len(finished.tokens) == 5


@pytest.mark.parametrize("target", ["http://127.0.0.1:1", "https://server.example/v1#model"])
async def test_a_target_elsewhere_is_refused(target: str) -> None:
    with pytest.raises(SpecchatError, match=r"^cannot connect to http.*: specchat is offline"):
        async with remote_runtime(target, offline=True):
            pass
