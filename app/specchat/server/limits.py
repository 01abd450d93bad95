"""What one server gives to whom."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes are in bytes, times in seconds."""

    sessions_per_key: int = 64
    waiting: int = 64
    """Answers that may wait for a place before others are turned away."""
    ttl_s: float = 900.0
    """After which an unused session is forgotten."""
    body: int = 8 << 20
    silence_s: float = 60.0
    """How long the rest of a body may be awaited; that of an upload of hints `ttl_s`."""
    line: int = 8 << 10
    """One line of an upload of hints."""
    hint_tokens: int = 64
    ping_s: float = 5.0
    """A stream is never silent for longer."""
