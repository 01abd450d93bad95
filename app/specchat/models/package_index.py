"""Files inside wheels: the package index that this computer's pip is set up for."""

from __future__ import annotations

import base64
import functools
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from threading import Event

import httpx

from specchat.models.errors import SourceError
from specchat.models.http import Remote, get

_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
_ACCEPT = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.1"
)


@dataclass(frozen=True)
class _ListedFile:
    name: str
    href: str
    size: int | None
    sha256: str | None


def find_wheel(client: httpx.Client, package: str, version: str, cancel: Event) -> Remote:
    """The wheel of exactly this release. Raises SourceError if the index has none."""
    name = _normalized(package)
    index, headers = _split_credentials(index_url())
    page = Remote(f"{index.rstrip('/')}/{name}/", {**headers, "Accept": _ACCEPT})
    response = get(client, page, cancel)
    for file in _listed_files(response):
        parts = file.name.removesuffix(".whl").split("-")
        if file.name.endswith(".whl") and [_normalized(parts[0]), parts[1]] == [name, version]:
            url = response.url.join(file.href).copy_with(fragment=None)
            same_host = url.host == response.url.host
            return Remote(str(url), headers if same_host else {}, file.size, file.sha256)
    raise SourceError(f"the package index has no wheel of {package} {version}")


@functools.cache
def index_url() -> str:
    """Base URL of the simple API: the person's setting, else the default that pip knows.

    pip states its effective index in its own help text, settings included, but masks passwords
    there; so a configured one is read from `pip config`.
    """
    for variable in _INDEX_VARIABLES:
        if url := os.environ.get(variable):
            return url
    configured = re.search(r"^\S+\.index-url='(\S+)'$", _pip("config", "list"), re.MULTILINE)
    known = re.search(r"--index-url <url>.*?default\s+(https?://\S+?)\)", _pip("install", "--help"))
    if match := configured or known:
        return match[1]
    raise SourceError("no package index is configured: set PIP_INDEX_URL")


def _pip(*arguments: str) -> str:
    """What pip prints, as one of this interpreter, of the PATH, or the copy that Python bundles."""
    command = _pip_command()
    if command is None:
        return ""
    environment = {**os.environ, "COLUMNS": "1000"}
    done = subprocess.run(
        [*command, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    return re.sub(r"\s*\n\s{8,}", " ", done.stdout)


def _pip_command() -> list[str] | None:
    if not getattr(sys, "frozen", False):
        if find_spec("pip"):
            return [sys.executable, "-m", "pip"]
        if (ensurepip := find_spec("ensurepip")) and ensurepip.origin:
            bundled = Path(ensurepip.origin).parent / "_bundled"
            if wheel := next(bundled.glob("pip-*.whl"), None):
                return [sys.executable, str(wheel / "pip")]
    found = shutil.which("pip3") or shutil.which("pip")
    return [found] if found else None


def _split_credentials(index: str) -> tuple[str, dict[str, str]]:
    """Take user and password out of the URL, so that no message and no log can show them."""
    url = httpx.URL(index)
    if not url.userinfo:
        return index, {}
    token = base64.b64encode(f"{url.username}:{url.password}".encode()).decode()
    return str(url.copy_with(userinfo=b"")), {"Authorization": f"Basic {token}"}


def _normalized(package: str) -> str:
    """PEP 503: runs of `-`, `_` and `.` are one dash, letters are lower case."""
    return re.sub(r"[-_.]+", "-", package).lower()


def _listed_files(response: httpx.Response) -> list[_ListedFile]:
    """The release files of a project page: PEP 691 JSON, or PEP 503 HTML from older indexes."""
    if "json" in response.headers.get("Content-Type", ""):
        try:
            return [
                _ListedFile(f["filename"], f["url"], f.get("size"), f["hashes"].get("sha256"))
                for f in response.json()["files"]
            ]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SourceError("the package index does not answer with a list of files") from error
    page = _SimplePage()
    page.feed(response.text)
    return page.files


class _SimplePage(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.files: list[_ListedFile] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a" and (href := dict(attrs).get("href")):
            url = httpx.URL(href)
            sha256 = url.fragment.removeprefix("sha256=")
            known = sha256 if url.fragment != sha256 else None
            self.files.append(_ListedFile(Path(url.path).name, href, None, known))
