"""The log: one file in the state folder, a few megabytes at most. Never texts, never keys."""

from __future__ import annotations

import contextlib
import logging
from logging.handlers import RotatingFileHandler

from specchat import locations

_BYTES = 1 << 20


def log_to_file() -> None:
    """Send warnings of everything, and what the engine and the app do, to the log file."""
    file = locations.log_file()
    with contextlib.suppress(OSError):  # no log is no reason not to chat
        file.parent.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(file, maxBytes=_BYTES, backupCount=1, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.getLogger().addHandler(handler)
        for name in ("specchat", "specengine"):
            logging.getLogger(name).setLevel(logging.INFO)
