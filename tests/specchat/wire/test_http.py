"""The HTTP client for servers elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
import pytest

from specchat.models.errors import DownloadError
from specchat.models.http import new_client as new_download_client
from specchat.wire.address import parse_address
from specchat.wire.errors import RemoteError
from specchat.wire.http import check, new_client

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


async def test_a_web_page_is_no_answer() -> None:
    request = httpx.Request("POST", "https://far.example/x?token=secret")
    page = httpx.Response(200, html="<html>log in", request=request)
    with pytest.raises(RemoteError, match=r"^https://far\.example/x answers with a web page"):
        await check(page)


def test_a_certificate_file_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.pem").write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "broken.pem"))
    with pytest.raises(RemoteError, match=r"^SSL_CERT_FILE=.*broken\.pem cannot be used"):
        new_client(FAR, None)
