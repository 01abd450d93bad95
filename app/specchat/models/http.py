"""One HTTP client for all downloads, and a transfer that survives cut connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import BinaryIO
from urllib.request import url2pathname

import httpx

from specchat.models.errors import DownloadCancelledError, DownloadError, SourceError
from specchat.models.growing_file import GrowingFile
from specchat.wire.environment import make_client
from specchat.wire.http import cause_of

ATTEMPTS = 5
"""Failures in a row after which a source is given up; any progress resets the count."""

BACKOFF_S = 1.0
"""Seconds to wait after the first failure, doubled after each further one; a server's
Retry-After takes precedence.
"""

LONGEST_WAIT_S = 60.0
_CHUNK = 1 << 18


@dataclass(frozen=True)
class Remote:
    """One file behind a URL. `size` in bytes and `sha256` in hex where they are known before."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    size: int | None = None
    sha256: str | None = None


def new_client() -> httpx.Client:
    """A client for downloads, with certificates and proxies as `make_client` has them.

    Connecting is given up after a few seconds, so that an unreachable host costs little; a read
    that stalls is taken up again by `transfer`. Raises DownloadError.
    """
    return make_client(
        httpx.Client,
        DownloadError,
        timeout=httpx.Timeout(15.0, connect=5.0),
        follow_redirects=True,
        mounts={"file://": _FileTransport()},
    )


def get(client: httpx.Client, remote: Remote, cancel: Event) -> httpx.Response:
    """A small page, asked for again while the server is busy. Raises SourceError."""
    return _request(client, "GET", remote, cancel, follow_redirects=True)


def head(client: httpx.Client, remote: Remote, cancel: Event, header: str) -> httpx.Headers:
    """The first headers on the way to `remote` that include `header`, else the last ones.

    A hub states what a file is where it redirects to a store, which may not answer HEAD at all.
    """
    for _ in range(client.max_redirects):
        response = _request(client, "HEAD", remote, cancel, follow_redirects=False)
        if header in response.headers or response.next_request is None:
            break
        onward = response.next_request.url
        same_host = onward.host == response.url.host
        remote = Remote(str(onward), remote.headers if same_host else {})
    return response.headers


def _request(
    client: httpx.Client, method: str, remote: Remote, cancel: Event, *, follow_redirects: bool
) -> httpx.Response:
    retries = _Retries(cancel)
    while True:
        try:
            response = client.request(
                method, remote.url, headers=remote.headers, follow_redirects=follow_redirects
            )
        except httpx.HTTPError as error:
            retries.after(error)
            continue
        if not response.is_error:
            return response
        retries.after_status(response)


def transfer(
    client: httpx.Client,
    remote: Remote,
    file: GrowingFile,
    begin: int,
    cancel: Event,
    on_progress: Callable[[], None],
) -> None:
    """Append what is missing of `remote` to `file`, whose bytes from `begin` on are its start.

    Cut connections, timeouts, 429 and 5xx are taken up again where the file ends; a server that
    knows no ranges sends everything anew. Raises SourceError, DownloadCancelledError.
    """
    if remote.size is not None and file.size - begin > remote.size:
        file.truncate(begin)
    retries = _Retries(cancel)
    while file.size - begin != remote.size:
        offset = file.size - begin
        resume = {"Range": f"bytes={offset}-"} if offset else {}
        try:
            with client.stream("GET", remote.url, headers={**remote.headers, **resume}) as response:
                if offset and response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                    if response.headers.get("Content-Range") == f"bytes */{offset}":
                        return
                    _check_size(response, remote, offset)
                    file.truncate(begin)
                elif response.is_success:
                    kept = offset if _continues_at(response, offset) else 0
                    _check_size(response, remote, kept)
                    file.truncate(begin + kept)
                    for chunk in response.iter_raw():
                        if cancel.is_set():
                            raise DownloadCancelledError("download stopped")
                        file.append(chunk)
                        retries.reset()
                        on_progress()
                    return
                else:
                    retries.after_status(response)
        except httpx.HTTPError as error:
            retries.after(error)


class _Retries:
    """Counts failures in a row, waits between them, and says when to give up."""

    def __init__(self, cancel: Event) -> None:
        self._cancel = cancel
        self._failures = 0
        self._connected = False

    def reset(self) -> None:
        self._failures = 0
        self._connected = True

    def after_status(self, response: httpx.Response) -> None:
        """Wait as the server asks, or raise where asking again is of no use."""
        cause = f"the server answers {response.status_code} {response.reason_phrase}".rstrip()
        if response.status_code != httpx.codes.TOO_MANY_REQUESTS and not response.is_server_error:
            raise SourceError(cause)
        self._connected = True
        self._count(cause)
        after = response.headers.get("Retry-After", "")
        self._wait(float(after) if after.isdecimal() else None)

    def after(self, error: httpx.HTTPError) -> None:
        """Wait after a failed connection; a host never reached is not asked a second time."""
        cause = cause_of(error)
        unreachable = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        if unreachable and not self._connected:
            raise SourceError(cause) from error
        self._count(cause)
        self._wait(None)

    def _count(self, cause: str) -> None:
        self._failures += 1
        if self._failures >= ATTEMPTS:
            raise SourceError(f"{cause} ({ATTEMPTS} times)")

    def _wait(self, seconds: float | None) -> None:
        backoff = BACKOFF_S * 2 ** (self._failures - 1) if seconds is None else seconds
        if self._cancel.wait(min(backoff, LONGEST_WAIT_S)):
            raise DownloadCancelledError("download stopped")


def _continues_at(response: httpx.Response, offset: int) -> bool:
    start = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return response.status_code == httpx.codes.PARTIAL_CONTENT and start.strip() == str(offset)


def _check_size(response: httpx.Response, remote: Remote, offset: int) -> None:
    """Refuse a file of another size (a login page, say) before its first byte is written."""
    length = response.headers.get("Content-Length", "")
    if remote.size is not None and length.isdecimal() and offset + int(length) != remote.size:
        raise SourceError(
            f"the server's file has {offset + int(length)} bytes, expected {remote.size}"
        )


class _FileTransport(httpx.BaseTransport):
    """Answers `file://localhost/…` as a server with ranges would, so that copying resumes too."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = Path(url2pathname(request.url.raw_path.decode()))
        try:
            size = path.stat().st_size
            file = path.open("rb")
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}") from error
        start = int(request.headers.get("Range", "bytes=0-")[6:-1])
        file.seek(start)
        headers = {"Content-Length": str(size - start), "Content-Range": f"bytes {start}-/{size}"}
        return httpx.Response(206 if start else 200, headers=headers, stream=_FileStream(file))


class _FileStream(httpx.SyncByteStream):
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        while chunk := self._file.read(_CHUNK):
            yield chunk

    def close(self) -> None:
        self._file.close()
