"""The key for a server: from the environment or from a file that nobody else may read."""

from __future__ import annotations

import os

from specchat import locations
from specchat.private_file import read_private
from specchat.remote.address import Address

VARIABLE = "SPECCHAT_KEY"
_FILE = "keys"


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

    A line is an address and a key, with spaces between. Raises SpecchatError for a file that
    others may read.
    """
    if value := os.environ.get(VARIABLE):
        return Key(value)
    file = locations.config_dir() / _FILE
    if not file.exists():
        return None
    for line in read_private(file).splitlines():
        base, _, value = line.strip().partition(" ")
        if base.rstrip("/") == address.base and value.strip():
            return Key(value.strip())
    return None
