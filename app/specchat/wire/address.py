"""Addresses of servers, however a person writes them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from specchat.errors import SpecchatError

_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class Address:
    """A server: scheme, host, port, and the path that its APIs lie below, without a final slash."""

    base: str
    host: str
    model: str | None = None
    """What follows `#`: the name of a model, for a server that has several."""

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def url(self, path: str) -> str:
        """`path` below the base, as in `url("/v1/models")`."""
        return self.base + path


def is_url(target: str) -> bool:
    """Whether a target is a server rather than a model's name or file."""
    return target.lower().startswith(("http://", "https://"))


def parse_address(url: str) -> Address:
    """`h`, `h/`, `h/v1` and `h/v1/` are one server. Raises SpecchatError."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise SpecchatError(f"{url} is not a valid address: {error}") from error
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise SpecchatError(f"{url} is not a valid address: write http://host:port or https://host")
    if parts.username or parts.password:
        raise SpecchatError(
            "do not put a key into the address: set SPECCHAT_KEY, or see docs/remote.md"
        )
    if parts.query:
        raise SpecchatError(
            "the address of a server has no query: leave out the ? and what follows"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    place = host if port is None else f"{host}:{port}"
    return Address(f"{parts.scheme}://{place}{path}", parts.hostname, parts.fragment or None)


def is_loopback(host: str) -> bool:
    """Whether `host` (a name or an IP address) is this computer and no other."""
    if host.lower().rstrip(".") == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
