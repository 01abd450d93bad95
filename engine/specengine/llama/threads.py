"""How many threads a pass should use."""

from __future__ import annotations

import os

import psutil


def default_threads() -> int:
    """The physical cores that this process may use: more threads than that slow a pass down."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    physical = psutil.cpu_count(logical=False)
    return max(1, min(allowed or 1, physical or allowed or 1))
