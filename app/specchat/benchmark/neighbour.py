"""A neighbour process that keeps one core busy, as a browser or a compiler would."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# A thread waits for the end of standard input: it comes even when this process is killed.
_SPIN = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
print(flush=True)
while True: pass
"""


@contextmanager
def busy_neighbour() -> Iterator[None]:
    """One core is busy for the length of the `with` block."""
    with subprocess.Popen(
        [sys.executable, "-c", _SPIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it runs
            yield
        finally:
            process.kill()
