"""Where files live: the platform's own folders, or everything below `SPECCHAT_HOME`.

Nothing here creates a folder: whoever writes a file does.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

_DIRS = platformdirs.PlatformDirs("specchat", appauthor=False)


def config_dir() -> Path:
    """Settings and the person's own model registry."""
    return _below_home("config") or _DIRS.user_config_path


def data_dir() -> Path:
    """What must not be lost: the chats, and by default the models."""
    return _below_home("data") or _DIRS.user_data_path


def state_dir() -> Path:
    """What outlives a run without being data: logs."""
    return _below_home("state") or _DIRS.user_state_path


def cache_dir() -> Path:
    """What can be deleted at any time and is made again."""
    return _below_home("cache") or _DIRS.user_cache_path


def models_dir() -> Path:
    """Downloaded model files; `SPECCHAT_MODELS_DIR` puts them on another disk."""
    return _environment_path("SPECCHAT_MODELS_DIR") or data_dir() / "models"


def settings_file() -> Path:
    return config_dir() / "settings.toml"


def registry_file() -> Path:
    """The person's own models and profiles, merged over those that come with the program."""
    return config_dir() / "models.toml"


def database_file() -> Path:
    return data_dir() / "chats.db"


def states_dir() -> Path:
    """The caches of chats, a file for each."""
    return cache_dir() / "states"


def drafts_dir() -> Path:
    """Draft models, converted to a cheaper type."""
    return cache_dir() / "drafts"


def pass_costs_file() -> Path:
    """What passes of the models cost on this machine."""
    return cache_dir() / "pass-costs.json"


def log_file() -> Path:
    return state_dir() / "specchat.log"


def expanded(text: str) -> Path:
    """`text` as a path, a leading `~` replaced; it stays, as in a shell, where no home is known."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def _below_home(name: str) -> Path | None:
    home = _environment_path("SPECCHAT_HOME")
    return home / name if home else None


def _environment_path(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return expanded(value).absolute() if value else None
