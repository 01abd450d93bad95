"""What a server that a run started has written."""

from __future__ import annotations

from typing import IO


def read_log(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode("utf-8", "replace")


def last_words(log: IO[bytes]) -> str:
    """The last line: why it failed."""
    lines = read_log(log).strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"
