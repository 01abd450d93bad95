"""What was found out once, kept in a JSON file."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

T = TypeVar("T", bound=BaseModel)


def read_kept(file: Path, empty: T) -> T:
    """What `file` keeps; `empty` where it is missing or damaged."""
    try:
        return type(empty).model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return empty


def write_kept(file: Path, kept: BaseModel) -> None:
    """Keep it, whole or not at all. A folder that cannot be written costs the search next time."""
    temporary = file.with_suffix(f".{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(kept.model_dump_json(indent=1), "utf-8")
        temporary.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
