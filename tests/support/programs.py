"""The programs that a build finds here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Programs:
    """Shell scripts in a folder that is the whole PATH."""

    folder: Path

    def add(self, *names: str, script: str = "echo 1.0") -> None:
        for name in names:
            program = self.folder / name
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
