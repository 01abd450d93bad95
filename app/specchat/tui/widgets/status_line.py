"""The line at the bottom: what happens now, and what speculation brings."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from specchat.models.registry import Profile
from specchat.models.sizes import readable_size
from specchat.printable import one_line
from specengine.core.events import Progress
from specengine.core.statistics import Statistics

_SEPARATOR = " · "
_BAR_CELLS = 16


class StatusLine(Widget):
    """Shows as many figures as there is room for, the most telling ones first."""

    DEFAULT_CSS = """
    StatusLine {
        height: 1;
        padding: 0 2;
        color: $foreground-muted;
    }
    """

    profile: reactive[Profile | None] = reactive(None)
    context_size: reactive[int] = reactive(0)
    """In tokens; 0 if it is not known."""
    activity: reactive[Content] = reactive(Content())
    """What happens now; empty at rest."""
    stats: reactive[Statistics | None] = reactive(None, always_update=True)

    def render(self) -> Content:
        left = self._left()
        room = self.content_size.width - left.cell_length
        figures = _figures(self.stats, self.context_size) if self.stats else []
        while figures and len(_SEPARATOR.join(["", *figures])) > room:
            figures.pop()
        right = _SEPARATOR.join(figures)
        return left + " " * max(0, room - len(right)) + right

    def _left(self) -> Content:
        if self.profile is not None:
            name = one_line(self.profile.name)
            return Content.assemble(("● ", "$accent"), name, "  ", self.activity)
        if self.activity:
            return self.activity
        return Content.assemble(("○ ", "$warning"), "no model · Ctrl+T chooses one")


def _figures(stats: Statistics, context_size: int) -> list[str]:
    """What is known, the first to stay longest."""
    figures = []
    if stats.tokens_per_s is not None:
        figures.append(f"{stats.tokens_per_s:.1f} tokens/s")
    if stats.acceptance_rate is not None:
        figures.append(f"{stats.acceptance_rate:.0%} accepted")
    if stats.tokens_per_pass is not None:
        figures.append(f"{stats.tokens_per_pass:.1f} tokens/pass")
    if context_size:
        used = stats.prompt_tokens + stats.completion_tokens
        figures.append(f"context {used} of {context_size}")
    return figures


def progress_content(event: Progress) -> Content:
    """A step that takes a while, with a bar where its length is known."""
    label = one_line(event.label)
    match event.stage:
        case "download":
            of_all = f" of {readable_size(event.total)}" if event.total else ""
            text = f"downloading {label}  {readable_size(event.done)}{of_all}"
        case "load":
            text = f"loading {label}"
        case "convert":
            text = f"converting {label}"
        case "measure":
            text = f"measuring {label}"
        case "prompt":
            text = f"reading {event.total} tokens"
        case "wait":
            text = f"{label} · waiting, Esc stops"
    if not event.total:
        return Content(text)
    fraction = min(1.0, event.done / event.total)
    full = round(fraction * _BAR_CELLS)
    bar = Content.assemble(("━" * full, "$accent"), ("━" * (_BAR_CELLS - full), "$foreground 20%"))
    return Content.assemble(bar, f" {fraction:4.0%}  ", text)
