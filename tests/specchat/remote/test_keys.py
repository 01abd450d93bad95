"""Keys: the right one opens, a wrong one is named, and none is ever shown."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import pytest

from specchat.errors import SpecchatError
from specchat.remote.keys import Key
from support.remote_chat import ask, remote_runtime
from support.verify_server import running_server

RIGHT, WRONG = "right-key-0123456789", "wrong-key-0123456789"


async def test_a_verify_server_with_keys(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with running_server(tiny_model, keys=(RIGHT,), places=1) as server:
        with pytest.raises(SpecchatError, match="wants another key"):
            async with remote_runtime(server.url):
                pass
        monkeypatch.setenv("SPECCHAT_KEY", WRONG)
        with pytest.raises(SpecchatError, match="wants another key") as caught:
            async with remote_runtime(server.url):
                pass
        shown = "".join(traceback.format_exception(caught.value))
        monkeypatch.setenv("SPECCHAT_KEY", RIGHT)
        async with remote_runtime(server.url) as runtime:
            finished = await ask(runtime, max_tokens=5)
    assert len(finished.tokens) == 5
    for key in (RIGHT, WRONG):
        assert key not in shown + caplog.text + str(finished)


def test_a_key_does_not_show_itself() -> None:
    assert RIGHT not in f"{Key(RIGHT)} {Key(RIGHT)!r} {vars(Key(RIGHT)).keys()}"
