"""Tells whether the process that was writing an answer still runs."""

from __future__ import annotations

import psutil

_CLOCK_TOLERANCE_S = 5.0  # start times shift when the system clock is set


def process_mark() -> str:
    """This process, as text that another process can later ask about."""
    process = psutil.Process()
    return f"{process.pid}@{process.create_time():.2f}"


def is_running(mark: str) -> bool:
    """Whether the process of `mark` runs; a reused process id is told apart by its start time."""
    pid, _, started = mark.partition("@")
    try:
        process = psutil.Process(int(pid))
        same = abs(process.create_time() - float(started)) < _CLOCK_TOLERANCE_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.AccessDenied:
        return True
    except (ValueError, psutil.NoSuchProcess):
        return False
