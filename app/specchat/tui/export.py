"""Answers as files."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path


def save_text(text: str, folder: Path | None = None) -> Path:
    """Writes `text` to a new file in `folder`, by default the current one. Raises OSError."""
    folder = folder or Path.cwd()
    stem = f"answer-{datetime.now():%Y%m%d-%H%M%S}"
    number = 1
    while True:
        path = folder / (f"{stem}.md" if number == 1 else f"{stem}-{number}.md")
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text + "\n")
        except FileExistsError:
            number += 1
        else:
            return path
