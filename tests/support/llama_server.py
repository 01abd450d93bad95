"""A real llama-server: a program of that name, or the one in SPECCHAT_LLAMA_SERVER."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest


@contextmanager
def llama_server(model: Path, *arguments: str) -> Iterator[str]:
    """Its address, once it has loaded `model`. Skips the test where there is no such program."""
    program = shutil.which(os.environ.get("SPECCHAT_LLAMA_SERVER", "llama-server"))
    if program is None:
        pytest.skip("no llama-server: name one in SPECCHAT_LLAMA_SERVER")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [program, "-m", str(model), "-c", "512", "-np", "1", "-t", "1", "--port", str(port)]
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            deadline = time.monotonic() + 120
            while not _is_ready(url):
                assert process.poll() is None, "llama-server does not start"
                assert time.monotonic() < deadline, "llama-server is not ready"
                time.sleep(0.1)
            yield url
        finally:
            process.kill()


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
