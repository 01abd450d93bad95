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
_KEYRING = "keyring"  # instead of a key
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
    """The target of the command, an address or a model: a key that names no address belongs to
    it.
    """
    over_http: bool = False
    """Whether a key may be sent unencrypted, readable by everybody on the way."""

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
                f"the key for {address.base} would be sent unencrypted, readable by everybody on "
                "the way: use https or ssh -L (docs/remote.md), or send it anyway with "
                "--key-over-http"
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
                raise SpecchatError(
                    f"{VARIABLE} must be a key, or an address and a key with a space between"
                )


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
        raise SpecchatError(
            f"the key for {address.base} has characters that cannot be sent: only printable "
            "ASCII is allowed"
        )
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
            f"the key for {base} is in the system's keyring, but the package that reads it is "
            "not installed: run `pip install keyring`"
        ) from None
    except Exception as error:  # each system's own kinds: locked, refused, not there
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SpecchatError(f"the system's keyring cannot be opened: {reason[:200]}") from None
    if not value:
        raise SpecchatError(
            f"the system's keyring has no key for {base}: store one with `keyring set {_SERVICE} "
            f"{base}`"
        )
    return _key(value, address)
