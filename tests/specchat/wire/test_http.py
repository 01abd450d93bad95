"""The HTTP client for servers elsewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from specchat.models.errors import DownloadError
from specchat.models.http import new_client as new_download_client
from specchat.wire.address import parse_address
from specchat.wire.errors import RemoteError, TryAgainError
from specchat.wire.http import check, explain, new_client

FAR = parse_address("https://far.example")


@pytest.mark.parametrize(
    ("variable", "url", "reason"),
    [
        ("ALL_PROXY", "socks5://me:secret@proxy.example:1080", "httpx\\[socks\\]"),
        ("HTTPS_PROXY", "gopher://me:secret@proxy.example", "a proxy that cannot be used"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, variable: str, url: str, reason: str
) -> None:
    for name in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setitem(sys.modules, "socksio", None)  # as if it were not installed
    monkeypatch.setenv(variable, url)
    with pytest.raises(RemoteError, match=f"^{variable} names .*{reason}") as remote:
        new_client(FAR, None)
    with pytest.raises(DownloadError, match=f"^{variable} names .*{reason}") as download:
        new_download_client()
    assert "secret" not in f"{remote.value} {download.value}"


async def test_this_computer_is_reached_whatever_the_proxies_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://proxy.example")
    await new_client(parse_address("http://127.0.0.1:1"), None).aclose()


def answered(status: int, **content: Any) -> httpx.Response:
    request = httpx.Request("POST", "https://far.example/x?token=secret")
    return httpx.Response(status, request=request, **content)


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (answered(200, html="<html>log in"), "answers with a web page"),
        (answered(401, json={"error": "who\nare you"}), r"needs a key.* \(401\): who are you;"),
        (answered(403), r"needs a key, or another one \(403\): Forbidden;"),
        (answered(302, headers={"Location": "/y"}), "redirects to another address"),
        (answered(400, json={"error": {"message": "n: too many"}}), "answers 400: n: too many"),
        (answered(500, text="no JSON"), "answers 500: Internal Server Error"),
    ],
)
async def test_what_is_no_success_is_told_in_the_servers_words(
    response: httpx.Response, said: str
) -> None:
    with pytest.raises(RemoteError, match=rf"^https://far\.example/x {said}"):
        await check(response)


@pytest.mark.parametrize(
    ("retry_after", "after_s"), [("7", 7.0), ("99999", 60.0), ("-1", 0.0), ("tomorrow", 1.0)]
)
async def test_a_busy_server_says_when_to_ask_again(retry_after: str, after_s: float) -> None:
    with pytest.raises(TryAgainError, match=r"/x is busy \(429\): Too Many") as busy:
        await check(answered(429, headers={"Retry-After": retry_after}))
    assert busy.value.after_s == after_s


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (httpx.ConnectTimeout("x"), "no connection within 5 s"),
        (httpx.ReadTimeout("x"), "the server stopped answering"),
        (httpx.ConnectError("refused"), r"no connection \(refused\)"),
        (httpx.ProxyError("no"), r"the proxy refuses the connection \(no\)"),
        (httpx.ReadError(""), r"the connection was lost \(ReadError\)"),
    ],
)
def test_why_there_is_no_connection_is_one_line(error: httpx.TransportError, said: str) -> None:
    assert re.fullmatch(rf"https://far\.example: {said}", explain(error, FAR))


def test_a_certificate_file_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.pem").write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "broken.pem"))
    with pytest.raises(RemoteError, match=r"^SSL_CERT_FILE=.*broken\.pem cannot be used"):
        new_client(FAR, None)
