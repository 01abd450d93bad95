"""Keys: the right one opens, a wrong one is named, and none is ever shown."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

import pytest

from specchat.errors import SpecchatError
from specchat.remote.address import parse_address
from specchat.remote.keys import Key, find_key
from support.command_line import specchat
from support.remote_chat import ask, remote_runtime
from support.verify_server import running_server


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path))
    return tmp_path


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


def write_keys(home: Path, *lines: str) -> None:
    file = home / "config" / "keys"
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o600)


def test_no_command_shows_a_key_anywhere(tiny_model: Path, tmp_path: Path) -> None:
    with running_server(tiny_model, keys=(RIGHT,), places=1) as server:
        shown = b""
        for name, key, code in (("right", RIGHT, 0), ("wrong", WRONG, 1)):
            home = tmp_path / name
            write_keys(home, f"{server.url}/ {key}")
            for arguments in (
                ("ask", "--json", "--target", server.url, "--max-tokens", "4", "Hi"),
                ("connect", server.url),
            ):
                done = specchat(home, *arguments)
                assert done.returncode == code, done.stderr
                shown += done.stdout + done.stderr
    files = [file for file in tmp_path.rglob("*") if file.is_file() and file.name != "keys"]
    assert any(file.suffix == ".log" for file in files)
    everything = shown + b"".join(file.read_bytes() for file in files)
    for key in (RIGHT, WRONG):
        assert key.encode() not in everything


@pytest.mark.parametrize("written", ["", "/", "/v1", "/v1/", "#qwen2.5:7b"])
def test_the_file_takes_every_way_to_write_an_address(own_home: Path, written: str) -> None:
    write_keys(
        own_home,
        "# mine",
        f"https://other.example {WRONG}",
        f"https://far.example{written}  {RIGHT}",
    )
    found = find_key(parse_address("https://far.example/v1"))
    assert found is not None
    assert found.header() == f"Bearer {RIGHT}"


@pytest.mark.skipif(os.name != "posix", reason="permissions are kept elsewhere there")
def test_a_file_that_others_may_read_is_refused(own_home: Path) -> None:
    address = parse_address("https://far.example")
    write_keys(own_home, f"{address.base} {RIGHT}")
    (own_home / "config" / "keys").chmod(0o640)
    with pytest.raises(SpecchatError, match="chmod 600") as caught:
        find_key(address)
    assert RIGHT not in str(caught.value)


class FakeKeyring(ModuleType):
    """The system's keeper, with one key, or broken."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__("keyring")
        self.error = error

    def get_password(self, service: str, name: str) -> str | None:
        if self.error is not None:
            raise self.error
        return {("specchat", "https://far.example"): RIGHT}.get((service, name))


def test_the_system_may_keep_the_key(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far, other = parse_address("https://far.example/v1"), parse_address("https://other.example")
    write_keys(own_home, f"{far.base} keyring", f"{other.base}   keyring")
    monkeypatch.setitem(sys.modules, "keyring", FakeKeyring())
    found = find_key(far)
    assert found is not None
    assert found.header() == f"Bearer {RIGHT}"
    assert find_key(parse_address("https://third.example")) is None
    with pytest.raises(SpecchatError, match="`keyring set specchat https://other"):
        find_key(other)
    monkeypatch.setitem(sys.modules, "keyring", FakeKeyring(RuntimeError("it is\nlocked")))
    with pytest.raises(SpecchatError, match="does not open: it is locked"):
        find_key(far)
    monkeypatch.setitem(sys.modules, "keyring", None)  # as if it were not installed
    with pytest.raises(SpecchatError, match="`pip install keyring`"):
        find_key(far)
