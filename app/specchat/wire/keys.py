"""The key for a server: from the environment, a file that nobody else may read, or the keyring."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass

from specchat.config import locations
from specchat.config.private_file import read_private
from specchat.errors import SpecchatError
from specchat.wire.address import Address, is_url, parse_address

VARIABLE = "SPECCHAT_KEY"
_FILE = "keys"
_KEYRING = "keyring"  # in the place of a key
_SERVICE = "specchat"


class Key:
    """A key that does not show itself: neither in a log nor in a traceback."""

    def __init__(self, value: str) -> None:
        self._value = value

    def header(self) -> str:
        """The value of an Authorization header."""
        return f"Bearer {self._value}"

    def __repr__(self) -> str:
        return "Key(…)"


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one command, each for one address."""

    target: str
    """What the command begins with, an address or a model: a key that names no address is its."""
    over_http: bool = False
    """Whether a key may go where everybody on the way can read it."""

    def find(self, address: Address) -> Key | None:
        """That of SPECCHAT_KEY, else that of the file `keys` in the configuration folder.

        A line of the file is an address, written in any way that `parse_address` takes, and a key,
        with spaces between, or the word `keyring`: then the system keeps the key. SPECCHAT_KEY is a
        key, or an address and a key. Raises SpecchatError for a key that would not be encrypted on
        the way, a file that others may read, a keyring that has no such key or cannot be used.
        """
        key = self._in_environment(address) or _in_file(address)
        is_encrypted = address.base.startswith("https:") or address.is_loopback
        if key is not None and not is_encrypted and not self.over_http:
            raise SpecchatError(
                f"{address.base} has a key, which everybody on the way could read: use https, or "
                "ssh -L (docs/remote.md); --key-over-http sends it all the same"
            )
        return key

    def _in_environment(self, address: Address) -> Key | None:
        match os.environ.get(VARIABLE, "").split():
            case []:
                return None
            case [value]:
                return _key(value, address) if _names(self.target, address) else None
            case [written, value] if is_url(written):
                return _key(value, address) if _names(written, address) else None
            case _:
                raise SpecchatError(f"{VARIABLE} is neither a key nor an address and a key")


def _in_file(address: Address) -> Key | None:
    file = locations.config_dir() / _FILE
    if not file.exists():
        return None
    for line in read_private(file).splitlines():
        written, _, value = line.strip().partition(" ")
        if (value := value.strip()) and _names(written, address):
            return _from_keyring(address) if value == _KEYRING else _key(value, address)
    return None


def _key(value: str, address: Address) -> Key:
    if not value.isascii() or not value.isprintable():
        raise SpecchatError(f"the key for {address.base} has characters that no key has")
    return Key(value)


def _names(written: str, address: Address) -> bool:
    try:
        return parse_address(written).base == address.base
    except SpecchatError:  # a comment, or another mistake that is not ours to tell
        return False


def _from_keyring(address: Address) -> Key:
    base = address.base
    try:
        # Late, and by name: it is an optional dependency.
        value = importlib.import_module("keyring").get_password(_SERVICE, base)
    except ImportError:
        raise SpecchatError(
            f"the key for {base} is in the keyring, and what opens it is missing: "
            "`pip install keyring`"
        ) from None
    except Exception as error:  # each system's own kinds: locked, refused, not there
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SpecchatError(f"the system's keyring does not open: {reason[:200]}") from None
    if not value:
        raise SpecchatError(
            f"the system's keyring has no key for {base}: `keyring set {_SERVICE} {base}` takes one"
        )
    return _key(value, address)
