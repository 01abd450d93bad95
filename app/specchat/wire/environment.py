"""HTTP clients with the certificates and the proxies that the environment names."""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from typing import Any, TypeVar
from urllib.request import getproxies

import httpx

from specchat.errors import SpecchatError
from specchat.version import __version__

_CA_BUNDLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
C = TypeVar("C", httpx.Client, httpx.AsyncClient)


def make_client(
    kind: type[C],
    failure: type[SpecchatError],
    *,
    encrypted: bool = True,
    headers: dict[str, str] | None = None,
    **options: Any,
) -> C:
    """A client that says who it is, and takes no compressed answers.

    It believes the certificates of the system and of certifi, those in the file SSL_CERT_FILE, and
    those that pip would. Raises `failure`, with one line, where a variable cannot be used.
    """
    own = {"User-Agent": f"specchat/{__version__}", "Accept-Encoding": "identity"}
    try:
        verify = _certificates() if encrypted else False
        return kind(verify=verify, headers={**own, **(headers or {})}, **options)
    except OSError as error:
        chosen = os.environ.get("SSL_CERT_FILE")
        raise failure(f"SSL_CERT_FILE={chosen} cannot be used: {error}") from error
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise failure(_explain_proxies(error)) from error


def _certificates() -> ssl.SSLContext:
    context = httpx.create_ssl_context()
    context.load_default_certs()
    for variable in _CA_BUNDLES:
        if bundle := os.environ.get(variable):
            with suppress(OSError, ssl.SSLError):
                context.load_verify_locations(bundle)
    return context


def _explain_proxies(error: Exception) -> str:
    """One line, without what a proxy's address may hold of passwords."""
    proxies = {f"{kind.upper()}_PROXY": url for kind, url in getproxies().items() if kind != "no"}
    if isinstance(error, ImportError):
        names = [name for name, url in proxies.items() if url.startswith("socks")]
        reason = "a SOCKS proxy, which needs another package: run `pip install 'httpx[socks]'`"
    else:
        names = list(proxies)
        reason = "a proxy that cannot be used: write http://host:port"
    return f"{', '.join(names) or 'the environment'} names {reason}; or unset the variable"
