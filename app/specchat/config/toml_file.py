"""TOML files that a person writes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from specchat.errors import SpecchatError


def read_toml(path: Path, failure: type[SpecchatError] = SpecchatError) -> dict[str, Any]:
    """What the file says; nothing if it does not exist. Raises `failure`, which names the file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise failure(f"{path}: {error}") from error
    except OSError as error:
        raise failure(f"{path} cannot be read: {error.strerror}") from error
