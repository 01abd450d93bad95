"""The profile that was chosen on the screen, for the next start."""

from __future__ import annotations

import contextlib
from pathlib import Path

from specchat import locations
from specchat.models.registry import Profile


def last_profile() -> str | None:
    """Name of the profile chosen last, None where none was."""
    try:
        return _file().read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def remember_profile(profile: Profile) -> None:
    """Best effort: a full disk costs the choice, not the chat."""
    with contextlib.suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        _file().write_text(profile.name + "\n", encoding="utf-8")


def _file() -> Path:
    return locations.state_dir() / "profile"
