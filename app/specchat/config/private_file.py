"""Files with keys or with what was said, which nobody else on the computer may read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from specchat.errors import SpecchatError


def create_private(path: Path) -> None:
    """Make `path`, empty and readable to its owner alone, where there is no such file yet."""
    if not path.exists():
        path.touch(mode=0o600)


def read_private(path: Path) -> str:
    """The text of `path`. Raises SpecchatError if others may read it, too.

    Windows keeps permissions elsewhere: there nothing is checked.
    """
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise SpecchatError(f"{path} can be read by other users: run `chmod 600 {path}`")
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpecchatError(f"{path} cannot be read: {reason}") from error
