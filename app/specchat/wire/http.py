"""One HTTP client for remote targets, and errors that say what a person can do about them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import httpx

from specchat.printable import one_line
from specchat.wire.address import Address
from specchat.wire.environment import make_client
from specchat.wire.errors import RemoteError, TryAgainError
from specchat.wire.keys import Key

_KEEP_ALIVE_S = 120.0  # a person may think for a while; each new connection costs handshakes
_TIMEOUT = httpx.Timeout(25.0, connect=5.0)  # a stream pings more often than that
_BUSY = (408, 425, 429, 502, 503, 504)
_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0


def new_client(address: Address, key: Key | None) -> httpx.AsyncClient:
    """For `address` alone: a redirect to another host would take the key along.

    This computer is reached without a proxy, others by what the environment says. Raises
    RemoteError where that cannot be used.
    """
    return make_client(
        httpx.AsyncClient,
        RemoteError,
        encrypted=address.base.startswith("https:"),
        headers={} if key is None else {"Authorization": key.header()},
        timeout=_TIMEOUT,
        trust_env=not address.is_loopback,
        follow_redirects=False,
        limits=httpx.Limits(keepalive_expiry=_KEEP_ALIVE_S),
    )


def is_page(response: httpx.Response) -> bool:
    """Whether this is a web page for people: of a login, a router, another program."""
    content_type: str = response.headers.get("Content-Type", "")
    return content_type.lower().startswith("text/html")


async def check(response: httpx.Response) -> None:
    """Raises TryAgainError or RemoteError, with the server's own words, unless it succeeded."""
    url = response.request.url
    place = f"{url.scheme}://{url.netloc.decode()}{url.path}"
    if response.is_success:
        if is_page(response):
            raise RemoteError(
                f"{place} answers with a web page, not with an API: another program listens "
                "there, or the network asks for a login first"
            )
        return
    with suppress(httpx.HTTPError):
        await response.aread()  # the reason is in the body
    status, said = response.status_code, _message(response)
    if status in _BUSY:
        raise TryAgainError(f"{place} is busy ({status}): {said}", _retry_after(response))
    if status in (401, 403):
        raise RemoteError(
            f"{place} needs a key, or another one ({status}): {said}; write the server's address "
            "and its key into the file `keys` in the configuration folder, or set SPECCHAT_KEY"
        )
    if response.has_redirect_location:
        raise RemoteError(f"{place} redirects to another address: use that one")
    raise RemoteError(f"{place} answers {status}: {said}")


def explain(error: httpx.TransportError, address: Address) -> str:
    """One line; certificates are named, since trying again does not mend them."""
    return f"{address.base}: {cause_of(error)}"


def cause_of(error: httpx.HTTPError) -> str:
    """Why there is no answer."""
    match error:
        case httpx.ConnectTimeout():
            return "no connection within 5 s"
        case httpx.TimeoutException():
            return "the server stopped answering"
        case httpx.ConnectError():
            return f"no connection ({error})"
        case httpx.ProxyError():
            return f"the proxy refuses the connection ({error})"
        case _:
            return f"the connection was lost ({str(error) or type(error).__name__})"


def is_certificate_error(error: httpx.TransportError) -> bool:
    return isinstance(error, httpx.ConnectError) and "CERTIFICATE" in str(error).upper()


def json_of(response: httpx.Response) -> Any:
    """Raises RemoteError for a body that is not JSON, such as a login page."""
    try:
        return response.json()
    except ValueError:
        raise RemoteError(f"the answer of {response.request.url} is not JSON") from None


def _message(response: httpx.Response) -> str:
    """What the server says is wrong, in one line."""
    try:
        error = response.json()["error"]
        text = error if isinstance(error, str) else error["message"]
    except (ValueError, KeyError, TypeError, httpx.ResponseNotRead):
        text = response.reason_phrase
    return one_line(str(text))[:300]


def _retry_after(response: httpx.Response) -> float:
    after = response.headers.get("Retry-After", "")
    try:
        return min(max(0.0, float(after)), _LONGEST_RETRY_S)
    except ValueError:
        return _RETRY_S
