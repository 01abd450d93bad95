"""Proxies that the environment names and that cannot be used."""

from __future__ import annotations

from urllib.request import getproxies

import httpx

UNUSABLE = (ImportError, ValueError, httpx.InvalidURL)
"""What httpx raises for them where a client is made."""


def explain_proxies(error: Exception) -> str:
    """One line for one of `UNUSABLE`, without what a proxy's address may hold of passwords."""
    proxies = {f"{kind.upper()}_PROXY": url for kind, url in getproxies().items() if kind != "no"}
    if isinstance(error, ImportError):
        names = [name for name, url in proxies.items() if url.startswith("socks")]
        reason = "a SOCKS proxy, which needs another package: run `pip install 'httpx[socks]'`"
    else:
        names = list(proxies)
        reason = "a proxy that cannot be used: write http://host:port"
    return f"{', '.join(names) or 'the environment'} names {reason}; or unset the variable"
