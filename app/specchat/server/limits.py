"""The limits of a server: sessions, waiting answers, sizes and times."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes are in bytes, times in seconds."""

    sessions_per_key: int = 64
    waiting: int = 64
    """Answers that may wait for a place before further ones are refused."""
    ttl_s: float = 900.0
    """Seconds after which an unused session is forgotten."""
    body: int = 8 << 20
    silence_s: float = 60.0
    """Seconds to wait for the rest of a request body; for an upload of hints, `ttl_s`."""
    line: int = 8 << 10
    """Most bytes of a line in an upload of hints."""
    hint_tokens: int = 64
    ping_s: float = 5.0
    """Seconds after which a silent stream sends a sign of life."""
