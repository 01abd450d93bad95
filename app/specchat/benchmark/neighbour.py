"""A neighbour process that keeps one core busy, as a browser or a compiler would."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def busy_neighbour() -> Iterator[None]:
    """One core is busy for the length of the `with` block."""
    with subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it runs
            yield
        finally:
            process.kill()


def _spin() -> None:
    """Never return. A thread waits for the end of standard input: it comes even when the process
    that started this one is killed.
    """
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    print(flush=True)
    while True:
        pass


if __name__ == "__main__":
    _spin()
