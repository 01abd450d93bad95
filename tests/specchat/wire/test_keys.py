"""Keys: the right one opens, a wrong one is named, and none is ever shown."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from specchat.errors import SpecchatError
from specchat.models.registry import Profile
from specchat.wire.address import Address, parse_address
from specchat.wire.keys import Key, Keys
from support.chat_stand_in import Reply, chat_stand_in, events
from support.command_line import specchat
from support.remote_chat import ask, remote_runtime
from support.verify_server import running_server

RIGHT, WRONG = "right-key-0123456789", "wrong-key-0123456789"
NONE_NAMED = Keys("tiny")  # a model of this computer
FAR, OTHER = parse_address("https://far.example"), parse_address("https://other.example")
OPEN = parse_address("http://far.example")


def header(keys: Keys, address: Address) -> str | None:
    found = keys.find(address)
    return None if found is None else found.header()


def test_a_key_without_an_address_is_for_the_target_of_the_command_alone(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_KEY", RIGHT)
    keys = Keys("https://far.example/v1#big")
    assert header(keys, FAR) == f"Bearer {RIGHT}"
    assert header(keys, OTHER) is None
    assert header(NONE_NAMED, FAR) is None


def test_a_key_with_an_address_goes_there_whatever_the_target_is(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_KEY", f"https://far.example/v1  {RIGHT}")
    for keys in (NONE_NAMED, Keys(OTHER.base), Keys(FAR.base)):
        assert header(keys, FAR) == f"Bearer {RIGHT}"
        assert header(keys, OTHER) is None


def test_the_file_has_the_keys_of_the_others(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_KEY", RIGHT)
    write_keys(own_home, f"{FAR.base} {WRONG}", f"{OTHER.base} {WRONG}")
    keys = Keys(FAR.base)
    assert [header(keys, a) for a in (FAR, OTHER)] == [f"Bearer {RIGHT}", f"Bearer {WRONG}"]


@pytest.mark.parametrize(
    "value", [f"far {RIGHT}", f"https://far.example {RIGHT} x", "kéy", "a\x01b"]
)
def test_what_is_no_key_is_refused_and_not_shown(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SPECCHAT_KEY", value)
    with pytest.raises(
        SpecchatError, match=r"must be a key, or an address|cannot be sent"
    ) as caught:
        Keys(FAR.base).find(FAR)
    assert RIGHT not in str(caught.value)


@pytest.mark.parametrize("place", ["environment", "file"])
def test_no_key_goes_unencrypted_to_another_computer_unless_that_is_wanted(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    home = parse_address("http://127.0.0.1:8425")
    if place == "file":
        write_keys(own_home, f"{OPEN.base} {RIGHT}", f"{home.base} {RIGHT}")
    else:
        monkeypatch.setenv("SPECCHAT_KEY", RIGHT)
    with pytest.raises(SpecchatError, match="--key-over-http") as caught:
        Keys(OPEN.base).find(OPEN)
    assert RIGHT not in str(caught.value)
    assert header(Keys(OPEN.base, over_http=True), OPEN) == f"Bearer {RIGHT}"
    assert header(Keys(home.base), home) == f"Bearer {RIGHT}"


def test_without_a_key_plain_http_is_nobodys_concern(own_home: Path) -> None:
    assert Keys(OPEN.base).find(OPEN) is None


async def test_another_target_of_the_same_chat_does_not_get_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECCHAT_KEY", RIGHT)
    with (
        chat_stand_in(Reply([events("a")]), Reply([events("c")])) as one,
        chat_stand_in(Reply([events("b")])) as other,
    ):
        async with remote_runtime(one.url) as runtime:
            for server in (one, other, one):
                target = Profile(
                    name="x", description="", target=server.url, draft="none", system=""
                )
                await runtime.load(target, lambda event: None)
                await ask(runtime)
    assert one.keys == [f"Bearer {RIGHT}"] * 2
    assert other.keys == [None]


@pytest.mark.parametrize("arguments", [("connect",), ("ask", "--no-draft", "Hi", "--target")])
def test_every_command_keeps_the_key_at_home_until_the_flag_says_otherwise(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    with chat_stand_in(Reply([events("Hello.")])) as proxy:  # the way to every other computer
        env = {"SPECCHAT_KEY": RIGHT, "HTTP_PROXY": proxy.url, "http_proxy": proxy.url}
        refused = specchat(tmp_path, *arguments, OPEN.base, env=env)
        assert proxy.paths == []
        sent = specchat(tmp_path, *arguments, OPEN.base, "--key-over-http", env=env)
        assert set(proxy.all_keys) == {f"Bearer {RIGHT}"}
    assert (refused.returncode, sent.returncode) == (1, 0), sent.stderr
    (line,) = refused.stderr.decode().splitlines()
    assert "--key-over-http" in line
    assert RIGHT not in line + sent.stderr.decode() + sent.stdout.decode()


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
    write_keys(own_home, "# mine", f"{OTHER.base} {WRONG}", f"{FAR.base}{written}  {RIGHT}")
    assert header(NONE_NAMED, parse_address("https://far.example/v1")) == f"Bearer {RIGHT}"


@pytest.mark.skipif(os.name != "posix", reason="permissions are kept elsewhere there")
def test_a_file_that_others_may_read_is_refused(own_home: Path) -> None:
    write_keys(own_home, f"{FAR.base} {RIGHT}")
    (own_home / "config" / "keys").chmod(0o640)
    with pytest.raises(SpecchatError, match="chmod 600") as caught:
        NONE_NAMED.find(FAR)
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
    write_keys(own_home, f"{FAR.base} keyring", f"{OTHER.base}   keyring")
    monkeypatch.setitem(sys.modules, "keyring", FakeKeyring())
    assert header(NONE_NAMED, FAR) == f"Bearer {RIGHT}"
    assert NONE_NAMED.find(parse_address("https://third.example")) is None
    with pytest.raises(SpecchatError, match="`keyring set specchat https://other"):
        NONE_NAMED.find(OTHER)
    monkeypatch.setitem(sys.modules, "keyring", FakeKeyring(RuntimeError("it is\nlocked")))
    with pytest.raises(SpecchatError, match="cannot be opened: it is locked"):
        NONE_NAMED.find(FAR)
    monkeypatch.setitem(sys.modules, "keyring", None)  # as if it were not installed
    with pytest.raises(SpecchatError, match="`pip install keyring`"):
        NONE_NAMED.find(FAR)
