"""The profile that was chosen on the screen, for the next start."""

from __future__ import annotations

import contextlib
from pathlib import Path

from pydantic import ValidationError

from specchat.config import locations
from specchat.models.errors import RegistryError
from specchat.models.registry import Profile, Registry


def last_profile(registry: Registry) -> Profile | None:
    """The profile chosen last, as the registry has it now; None if it is gone or none was.

    One that was made for a file on this computer is in no registry and was written down whole.
    """
    try:
        last = Profile.model_validate_json(_file().read_bytes())
        if last.name in registry.profiles:
            return registry.profile(last.name)
        registry.resolve(last.target)
    except (OSError, ValidationError, RegistryError):
        return None
    return last


def remember_profile(profile: Profile) -> None:
    """Best effort: a full disk costs the choice, not the chat."""
    with contextlib.suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        _file().write_text(profile.model_dump_json(exclude_unset=True) + "\n", encoding="utf-8")


def _file() -> Path:
    return locations.state_dir() / "profile.json"
