"""Energy by Linux's running counters of the processor packages, if they can be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


@dataclass(frozen=True, slots=True)
class _Package:
    """A counter in microjoules that starts again at 0 after `limit`."""

    counter: Path
    limit: int


class EnergyMeter:
    """Joules of all processor packages between two readings.

    The counters (RAPL) exist on most PCs and are often readable by root only; virtual machines
    have none. They count the whole machine, neighbours included.
    """

    def __init__(self, folder: Path = POWERCAP) -> None:
        self._packages: list[_Package] = []
        for package in sorted(folder.glob("intel-rapl:[0-9]")):
            try:
                limit = int((package / "max_energy_range_uj").read_text())
                int((package / "energy_uj").read_text())
            except (OSError, ValueError):
                continue
            self._packages.append(_Package(package / "energy_uj", limit))

    def read(self) -> list[int] | None:
        """The counters now; None if this platform does not tell."""
        try:
            return [int(package.counter.read_text()) for package in self._packages] or None
        except (OSError, ValueError):
            return None

    def joules(self, before: list[int] | None, after: list[int] | None) -> float | None:
        if before is None or after is None:
            return None
        used = (
            (end - start) % (package.limit + 1)
            for package, start, end in zip(self._packages, before, after, strict=True)
        )
        return sum(used) / 1e6
