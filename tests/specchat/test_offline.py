"""Offline nothing is connected to: shown with the ways out of this computer shut."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from specchat.backends.runtime import Runtime
from specchat.errors import SpecchatError
from specchat.models.registry import Profile, load_registry
from support.remote_chat import ask


@pytest.fixture(autouse=True)
def _shut(monkeypatch: pytest.MonkeyPatch) -> None:
    def connection(*_: object, **__: object) -> None:
        raise AssertionError("a connection was made")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, connection)
    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        monkeypatch.setattr(socket, name, connection)


async def test_a_model_that_is_here_answers(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path))
    runtime = Runtime(load_registry(), n_threads=1, offline=True)
    profile = Profile(
        name="local", description="", target=str(tiny_model), draft="lookup", n_ctx=512, system=""
    )
    await runtime.load(profile, lambda event: None)
    finished = await ask(runtime, max_tokens=5)
    await runtime.close()
    assert len(finished.tokens) == 5


@pytest.mark.parametrize("target", ["http://127.0.0.1:1", "https://server.example/v1#model"])
async def test_a_target_elsewhere_is_refused(target: str) -> None:
    runtime = Runtime(load_registry(), offline=True)
    profile = Profile(name="remote", description="", target=target, draft="none")
    with pytest.raises(SpecchatError, match=r"^cannot connect to http.*: specchat is offline"):
        await runtime.load(profile, lambda event: None)
    await runtime.close()
