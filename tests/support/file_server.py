"""A loopback file server whose faults a test chooses: a hub, a package index, a plain host."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class FileServer:
    """What is served, how it fails, and what was asked for."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    """Bytes by path."""
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    """Additional response headers by path."""
    redirects: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    """Whether all files need a token that nobody has."""
    ranges: bool = True
    """Whether `Range` is understood."""
    statuses: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Status and headers for the next GET requests, instead of the file."""
    cuts: list[int] = field(default_factory=list)
    """The next GET requests for a file end after so many bytes."""
    stalls: list[int] = field(default_factory=list)
    """The next GET requests for a file say nothing more after so many bytes."""
    delay_s: float = 0.0
    """Wait before each file."""
    stopping: threading.Event = field(default_factory=threading.Event)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Method, path and headers of every request, in order."""

    def gets(self, path: str) -> list[str | None]:
        """The `Range` of each GET of `path`."""
        return [h.get("Range") for method, p, h in self.requests if (method, p) == ("GET", path)]

    def add_wheel(
        self, package: str, version: str, members: dict[str, bytes], *, html: bool = False
    ) -> str:
        """Publish a wheel on the index at `/simple`; returns the wheel's path."""
        name = f"{package.replace('-', '_')}-{version}-py3-none-any.whl"
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in members.items():
                archive.writestr(member, content)
        wheel = buffer.getvalue()
        sha256 = hashlib.sha256(wheel).hexdigest()
        self.files[f"/files/{name}"] = wheel
        page = f"/simple/{package}/"
        if html:
            anchor = f'<a href="../../files/{name}#sha256={sha256}">{name}</a>'
            self.files[page] = f"<!DOCTYPE html><html><body>{anchor}</body></html>".encode()
            self.headers[page] = {"Content-Type": "text/html"}
        else:
            sdist = {"filename": f"{package}-{version}.tar.gz", "url": "/x", "hashes": {}}
            file = {
                "filename": name,
                "url": f"../../files/{name}",
                "size": len(wheel),
                "hashes": {"sha256": sha256},
            }
            listing = {"meta": {"api-version": "1.1"}, "name": package, "files": [sdist, file]}
            self.files[page] = json.dumps(listing).encode()
            self.headers[page] = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
        return f"/files/{name}"


@contextmanager
def file_server() -> Iterator[FileServer]:
    state = FileServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, body: bool) -> None:
            state.requests.append((self.command, self.path, dict(self.headers)))
            if state.gated:
                self._start(401, {"Content-Length": "0"})
            elif body and state.statuses:
                status, headers = state.statuses.pop(0)
                self._start(status, {"Content-Length": "0", **headers})
            elif self.path in state.redirects:
                to = {"Location": state.redirects[self.path], "Content-Length": "0"}
                self._start(302, {**to, **state.headers.get(self.path, {})})
            elif self.path in state.files:
                self._send(state.files[self.path], body)
            else:
                self._start(404, {"Content-Length": "0"})

        def _send(self, content: bytes, body: bool) -> None:
            start, status = 0, 200
            headers = dict(state.headers.get(self.path, {}))
            wanted = self.headers.get("Range")
            if wanted and state.ranges:
                start, status = int(wanted.removeprefix("bytes=").removesuffix("-")), 206
                if start >= len(content):
                    size = {"Content-Range": f"bytes */{len(content)}"}
                    self._start(416, {"Content-Length": "0", **size})
                    return
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            content = content[start:]
            self._start(status, {"Content-Length": str(len(content)), **headers})
            if body:
                time.sleep(state.delay_s)
                if state.stalls:
                    self.wfile.write(content[: state.stalls.pop(0)])
                    self.wfile.flush()
                    state.stopping.wait()
                    return
                if state.cuts and not self.path.startswith("/simple"):
                    content = content[: state.cuts.pop(0)]
                    self.close_connection = True
                self.wfile.write(content)

        def _start(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

    class Server(ThreadingHTTPServer):
        def handle_error(self, *args: object) -> None:
            """A client that hangs up is what these tests are about."""

    server = Server(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield state
    finally:
        state.stopping.set()
        server.shutdown()
        server.server_close()
