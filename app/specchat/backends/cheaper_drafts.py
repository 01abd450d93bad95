"""Draft models are converted to a cheaper type, once, where that drafts faster on this machine."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from specchat.config import locations
from specengine.core.events import Progress
from specengine.files.gguf import GGUF
from specengine.llama import library
from specengine.llama.backends import gpu_devices
from specengine.load.cheaper_draft import TYPE, CheaperDraft


def cheaper(
    draft: GGUF, *, use_extra_bufts: bool, on_event: Callable[[Progress], None], cancel: Event
) -> GGUF:
    """The draft model converted, where that is faster here, else `draft` itself. A GPU's passes
    cost the same for any type of so small a model: there nothing is converted.

    Blocks for some seconds the first time. Raises CancelledError.
    """
    conversion = CheaperDraft(draft, locations.drafts_dir())
    if not conversion.is_worth_trying or gpu_devices(library.load()):
        return draft
    if not conversion.is_known:
        label = f"{draft.path.name} as {TYPE}, this first time"
        on_event(Progress("convert", 0, 0, label))
    return conversion.find(use_extra_bufts=use_extra_bufts, cancel=cancel) or draft
