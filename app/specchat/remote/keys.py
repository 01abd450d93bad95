"""The key for a server: from the environment, a file that nobody else may read, or the keyring."""

from __future__ import annotations

import importlib
import os

from specchat import locations
from specchat.errors import SpecchatError
from specchat.private_file import read_private
from specchat.remote.address import Address, parse_address

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


def find_key(address: Address) -> Key | None:
    """SPECCHAT_KEY, else the line for `address` in the file `keys` of the configuration folder.

    A line is an address, written in any way that `parse_address` takes, and a key, with spaces
    between, or the word `keyring`: then the system keeps the key. Raises SpecchatError for a file
    that others may read, and for a keyring that has no such key or cannot be used.
    """
    if value := os.environ.get(VARIABLE):
        return Key(value)
    file = locations.config_dir() / _FILE
    if not file.exists():
        return None
    for line in read_private(file).splitlines():
        written, _, value = line.strip().partition(" ")
        if (value := value.strip()) and _names(written, address):
            return _from_keyring(address.base) if value == _KEYRING else Key(value)
    return None


def _names(written: str, address: Address) -> bool:
    try:
        return parse_address(written).base == address.base
    except SpecchatError:  # a comment, or another mistake that is not ours to tell
        return False


def _from_keyring(base: str) -> Key:
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
    return Key(value)
