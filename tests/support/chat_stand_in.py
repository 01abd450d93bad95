"""A server of the OpenAI protocol that says what a test wrote down."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Reply:
    """An answer to one request; `pieces` are written one after another."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class ChatStandIn:
    """`replies` are given in turn to requests for a chat; `models` lists what there is."""

    replies: list[Reply] = field(default_factory=list)
    models: list[str] = field(default_factory=lambda: ["big"])
    requests: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    """Those that came with requests for a chat."""
    all_keys: list[str | None] = field(default_factory=list)
    url: str = ""


def events(
    *contents: str | dict[str, Any], finish: str | None = "stop", done: bool = True
) -> bytes:
    """A stream whose deltas have these contents, or are these."""
    deltas = [{"content": c} if isinstance(c, str) else c for c in contents]
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": d}]} for d in deltas]
    if finish is not None:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    lines = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode() for chunk in chunks]
    return b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


@contextmanager
def chat_stand_in(*replies: Reply, models: Sequence[str] = ("big",)) -> Iterator[ChatStandIn]:
    stand_in = ChatStandIn(list(replies), list(models))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._note()
            if stand_in.paths[-1] == "/v1/models":
                listed = [{"id": name} for name in stand_in.models]
                self._send(Reply([json.dumps({"data": listed}).encode()]))
            else:
                self._send(Reply([b"not found"], 404))

        def do_POST(self) -> None:
            self._note()
            stand_in.keys.append(self.headers["Authorization"])
            body = self.rfile.read(int(self.headers["Content-Length"]))
            stand_in.requests.append(json.loads(body))
            self._send(stand_in.replies.pop(0))

        def _note(self) -> None:
            stand_in.paths.append(urlsplit(self.path).path)  # a proxy is asked for whole addresses
            stand_in.all_keys.append(self.headers["Authorization"])

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            for piece in reply.pieces:
                self.wfile.write(piece)
                self.wfile.flush()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    stand_in.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
