"""Which CPU this is: a library built for one may be no use on another."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Cpu:
    """`model` is its name; `features` are the instruction sets it announces (Linux only)."""

    model: str
    features: frozenset[str] = frozenset()

    @property
    def announces_amx(self) -> bool:
        return "amx_tile" in self.features


def this_cpu() -> Cpu:
    if CPUINFO.exists():
        return parse_cpuinfo(CPUINFO.read_text("utf-8", "replace"))
    if platform.system() == "Darwin":
        name = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Cpu(name.stdout.strip() or platform.machine())
    return Cpu(platform.processor() or platform.machine())


def parse_cpuinfo(text: str) -> Cpu:
    """The first processor of /proc/cpuinfo. ARM kernels say "Features" and give no model name."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    model = fields.get("model name") or fields.get("CPU part") or platform.machine()
    return Cpu(model, frozenset((fields.get("flags") or fields.get("Features", "")).split()))
