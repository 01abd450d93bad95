"""What any server that a run starts needs: a port, and somebody who reads its log."""

from __future__ import annotations

import socket
from typing import IO


def free_port() -> int:
    """A port of this computer that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def read_log(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode("utf-8", "replace")


def last_words(log: IO[bytes]) -> str:
    """The last line: why it failed."""
    lines = read_log(log).strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"
