"""Transfers into a file of which some is there already."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import httpx
import pytest

from specchat.models.errors import DownloadCancelledError, SourceError
from specchat.models.growing_file import GrowingFile
from specchat.models.http import Remote, get, new_client, transfer
from support.file_server import FileServer

CONTENT = bytes(range(256)) * 4


def fetched(client: httpx.Client, remote: Remote, path: Path, begin: int = 0) -> bytes:
    with GrowingFile(path) as file:
        transfer(client, remote, file, begin, Event(), lambda: None)
    return path.read_bytes()


@pytest.mark.parametrize("size", [None, len(CONTENT)])
@pytest.mark.parametrize("more", [b"", b"more"], ids=["whole", "longer"])
def test_a_file_that_is_there_is_not_fetched_again_but_a_longer_one_is_dropped(
    server: FileServer, client: httpx.Client, tmp_path: Path, size: int | None, more: bytes
) -> None:
    server.files["/a"] = CONTENT
    (tmp_path / "a").write_bytes(CONTENT + more)
    assert fetched(client, Remote(f"{server.url}/a", size=size), tmp_path / "a") == CONTENT
    assert more or None not in server.gets("/a")


def test_a_file_is_appended_to_what_stands_before_it(
    server: FileServer, client: httpx.Client, tmp_path: Path
) -> None:
    server.files["/a"] = CONTENT
    (tmp_path / "a").write_bytes(b"before" + CONTENT[:100])
    remote = Remote(f"{server.url}/a", size=len(CONTENT))
    assert fetched(client, remote, tmp_path / "a", begin=6) == b"before" + CONTENT
    assert server.gets("/a") == ["bytes=100-"]


def test_retry_after_is_waited_for_and_can_be_stopped(
    server: FileServer, client: httpx.Client
) -> None:
    server.statuses = [(429, {"Retry-After": "3600"})]
    cancel = Event()
    cancel.set()
    with pytest.raises(DownloadCancelledError):
        get(client, Remote(f"{server.url}/a"), cancel)


def test_an_unreachable_host_is_asked_once(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    def refuse(*args: object) -> httpx.Response:
        attempts.append(args)
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", refuse)
    with pytest.raises(SourceError, match=r"no connection \(refused\)"):
        get(client, Remote("http://127.0.0.1:9/"), Event())
    assert len(attempts) == 1


def test_a_file_on_this_computer_that_is_not_there_is_asked_for_once(
    client: httpx.Client, tmp_path: Path
) -> None:
    missing = (tmp_path / "missing.gguf").as_uri().replace("file:///", "file://localhost/", 1)
    with pytest.raises(SourceError, match=r"missing\.gguf cannot be read: No such file[^(]*$"):
        get(client, Remote(missing), Event())


@pytest.mark.parametrize("variable", ["PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_certificate_file_that_is_missing_or_broken_is_passed_over(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "missing.pem"))
    new_client().close()
    (tmp_path / "missing.pem").write_text("no certificate")
    new_client().close()
