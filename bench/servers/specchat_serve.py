"""The server of a hybrid run: `specchat serve` in a process of its own, on a core of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx

from servers.child import free_port, last_words
from specchat.benchmark.errors import BenchmarkError

THREADS = 1  # of the server, and of the client

_START_S = 600.0
_END_S = 15.0


def cores() -> list[int]:
    """The cores that this process may use, where the platform lets processes choose; else none."""
    get = getattr(os, "sched_getaffinity", None)
    return sorted(get(0)) if get is not None else []


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Processes and threads that are started within stay on `core`."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that runs, or ran."""

    url: str
    _process: subprocess.Popen[bytes]
    _log: IO[bytes]

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def last_words(self) -> str:
        """As `child.last_words`."""
        return last_words(self._log)


@contextmanager
def serving(target: str, n_ctx: int, core: int | None) -> Iterator[Serving]:
    """A server of `target` with one thread. Raises BenchmarkError where it does not start."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "specchat", "serve", "--target", target, "--port", str(port)]
    command += ["--places", "1", "--ctx", str(n_ctx), "--threads", str(THREADS)]
    # Appended to: the position in the file is shared with the process.
    with tempfile.TemporaryFile("a+b", prefix="specchat-serve-") as log:
        with pinned(core):
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        server = Serving(url, process, log)
        try:
            deadline = time.monotonic() + _START_S
            while not _is_healthy(url):
                if server.has_ended or time.monotonic() > deadline:
                    raise BenchmarkError(f"the server does not start: {server.last_words()}")
                time.sleep(0.2)
            yield server
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
            process.kill()
            process.wait()


def _is_healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def resolved(target: str) -> str:
    """As the server understands it, wherever it is started: files by their whole path."""
    path = Path(target)
    return str(path.absolute()) if path.is_file() else target
