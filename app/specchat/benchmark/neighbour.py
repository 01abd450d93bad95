"""A neighbour process that keeps one core busy, as a browser or a compiler would."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SPIN = "print(flush=True)\nwhile True: pass"


@contextmanager
def busy_neighbour() -> Iterator[None]:
    """One core is busy for the length of the `with` block."""
    with subprocess.Popen([sys.executable, "-c", _SPIN], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it runs
            yield
        finally:
            process.kill()
