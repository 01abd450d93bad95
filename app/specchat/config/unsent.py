"""What was typed and not yet sent when the program ended, for the next start."""

from __future__ import annotations

from pathlib import Path

from specchat.config import locations
from specchat.config.private_file import create_private


def keep_unsent(text: str) -> None:
    """Keep `text`, in place of what was kept before. Raises OSError."""
    _file().parent.mkdir(parents=True, exist_ok=True)
    create_private(_file())
    _file().write_text(text, encoding="utf-8", errors="replace")


def take_unsent() -> str:
    """What was kept; the next call gives nothing."""
    try:
        text = _file().read_text(encoding="utf-8")
        _file().unlink()
    except (OSError, UnicodeDecodeError):
        return ""
    return text


def _file() -> Path:
    return locations.state_dir() / "unsent.txt"
