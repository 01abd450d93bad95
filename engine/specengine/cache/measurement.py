"""When and under what conditions passes were measured: how far that can be believed."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

_TOO_FAR = 0.15  # two passes of a quiet machine differ less
_TOO_BUSY = 0.25
_SHORTEST_S = 0.2  # the system counts processors' time in steps of 10 ms


@dataclass(frozen=True, slots=True)
class Measurement:
    """Each width was measured several times, of which the quickest pass counts."""

    at: float
    """Seconds since 1970."""
    passes: int
    """That were timed."""
    spread: float
    """By what share the second quickest pass took longer than the quickest: median over widths."""
    drift: float
    """By what share passes over one token took longer or shorter after all others than before."""
    load: float | None
    """Share of the machine's processors that other processes had; None where it was too short to
    tell.
    """

    @property
    def is_noisy(self) -> bool:
        """Whether something else slowed the passes, so that they are better measured again."""
        return max(self.spread, self.drift) > _TOO_FAR or (self.load or 0.0) > _TOO_BUSY


def spread_of(passes: Mapping[int, Sequence[float]]) -> float:
    """`Measurement.spread` of the seconds of passes by their width, two or more of each."""
    shares = []
    for seconds in passes.values():
        quickest, second = sorted(seconds)[:2]
        shares.append(second / quickest - 1 if quickest > 0 else 0.0)
    return statistics.median(shares)


def drift_of(before: Sequence[float], after: Sequence[float]) -> float:
    """`Measurement.drift`, from seconds of passes over one token."""
    low, high = sorted((min(before), min(after)))
    return high / low - 1 if low > 0 else 0.0


class OtherProcesses:
    """What they have of this machine's processors from now on."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._busy = self._busy_s()

    def load(self) -> float | None:
        """`Measurement.load` since the start."""
        elapsed = time.monotonic() - self._begun
        if elapsed < _SHORTEST_S:
            return None
        share = (self._busy_s() - self._busy) / (elapsed * (os.cpu_count() or 1))
        return min(max(0.0, share), 1.0)

    @staticmethod
    def _busy_s() -> float:
        """Seconds of processors' time of all processes but this one."""
        times, own = psutil.cpu_times(), psutil.Process().cpu_times()
        return float(times.user + times.system - own.user - own.system)
