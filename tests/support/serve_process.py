"""`specchat serve` as a process of its own, which a test may kill."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from support.command_line import environment


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def serving(
    home: Path, port: int, *flags: str, before: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    """A server with the smallest model, once it answers. `before`: Python that runs before it."""
    start = f"{before}from specchat.__main__ import main; main()"
    command = [sys.executable, "-c", start, "serve", "--profile", "tiny", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--ctx", "512", "--places", "2", "--threads", "1", *flags],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        deadline = time.monotonic() + 240  # the slowest kernels on a busy machine
        while True:
            assert process.poll() is None, process.stdout and process.stdout.read().decode()
            assert time.monotonic() < deadline, "the server did not start"
            try:
                httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False)
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
