"""The log: one file in the state folder, a few megabytes at most. Never texts, never keys."""

from __future__ import annotations

import contextlib
import logging
from logging.handlers import RotatingFileHandler

from specchat.config import locations

_BYTES = 1 << 20


def log_to_file() -> None:
    """Send warnings of everything, and what the engine and the app do, to the log file, once."""
    root = logging.getLogger()
    if any(isinstance(handler, RotatingFileHandler) for handler in root.handlers):
        return
    # No log is no reason not to chat: a folder that cannot be written, or a full disk, is passed
    # over without a word, and nothing goes to the terminal instead.
    logging.raiseExceptions = False
    root.addHandler(logging.NullHandler())
    file = locations.log_file()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(file, maxBytes=_BYTES, backupCount=1, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        root.addHandler(handler)
        for name in ("specchat", "specengine"):
            logging.getLogger(name).setLevel(logging.INFO)
