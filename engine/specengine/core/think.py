"""Whether a model thinks before it answers."""

from __future__ import annotations

from typing import Literal

Think = Literal["on", "off", "low", "medium", "high"]
"""Whether to think before an answer, and how hard, as far as a chat template can be told."""
