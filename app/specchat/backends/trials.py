"""Models that were never loaded here are tried in a process of their own, before they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event

from specchat.config import locations
from specengine.core.events import Progress
from specengine.files.gguf import GGUF
from specengine.load.trial import Trial


def try_out(
    model: GGUF,
    head: GGUF | None = None,
    *,
    own_heads: bool = False,
    vocab_only: bool = False,
    on_event: Callable[[Progress], None],
    cancel: Event,
) -> None:
    """As `Trial.run`, with a word to the person where it takes time. Raises ModelFileError for
    files that end the process, CancelledError.
    """
    folder = remembered_in()
    trial = Trial(model, head, own_heads=own_heads, vocab_only=vocab_only)
    if trial.is_needed(folder):
        on_event(Progress("load", 0, 0, f"{trial.label} in a process of its own, this first time"))
    trial.run(folder, cancel)


def remembered_in() -> Path:
    """The folder where what came of trials is remembered."""
    return locations.cache_dir()
