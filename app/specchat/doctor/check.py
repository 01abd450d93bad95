"""A line of the diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the diagnosis. `remedy` is a command or an instruction, where one is needed."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    remedy: str | None = None
