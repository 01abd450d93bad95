"""Who may use the server: bearer keys, or everybody on this computer."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from pathlib import Path

from specchat.config.private_file import read_private
from specchat.errors import SpecchatError
from specchat.server.refusal import Refusal
from specchat.wire.address import is_loopback

KEY_VARIABLE = "SPECCHAT_SERVER_KEY"
_SHORTEST = 16  # characters of a key


class Keys:
    """Compared by their hashes, all of them each time, so that time tells nothing."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        """Raises SpecchatError for a key that could be guessed."""
        self._hashes = [_hash(key) for key in keys if _checked(key)]

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def owner(self, headers: Mapping[str, str]) -> str:
        """A name for whoever sends these headers, equal for equal keys; "" where none are needed.

        Raises Refusal: 401 without a right key; without keys 403 for a request that was meant for
        another host (a web page that rebinds its name to this computer).
        """
        if not self._hashes:
            if not is_loopback(_host(headers.get("host", ""))):
                raise Refusal(
                    403, "host", "without a key, this server answers only to requests for localhost"
                )
            return ""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if not scheme:  # as Anthropic's clients send it
            scheme, given = "bearer", headers.get("x-api-key", "")
        given_hash = _hash(given.strip())
        matches = [hmac.compare_digest(given_hash, known) for known in self._hashes]
        if scheme.lower() != "bearer" or not any(matches):
            raise Refusal(
                401,
                "key",
                "a valid key is needed: Authorization: Bearer KEY, or x-api-key: KEY",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return given_hash.hex()[:16]


def load_keys(environment: Mapping[str, str], file: Path | None) -> Keys:
    """Keys from the environment and from a file with one key a line. Raises SpecchatError."""
    keys = [environment[KEY_VARIABLE]] if environment.get(KEY_VARIABLE) else []
    if file is not None:
        lines = (line.strip() for line in read_private(file).splitlines())
        keys += [line for line in lines if line and not line.startswith("#")]
        if not keys:
            raise SpecchatError(f"{file} contains no key: write one per line")
    return Keys(keys)


def _checked(key: str) -> str:
    if len(key) < _SHORTEST or not key.isascii() or not key.isprintable():
        raise SpecchatError(
            f"a server key must have at least {_SHORTEST} printable ASCII characters: make one "
            'with `python -c "import secrets; print(secrets.token_urlsafe(32))"`'
        )
    return key


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _host(header: str) -> str:
    """The host name of a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
