"""What an empty chat shows."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

_KEYS = (
    ("Enter", "sends"),
    ("Ctrl+J", "breaks the line"),
    ("Esc", "stops an answer and keeps what came"),
    ("Ctrl+T", "chooses the models"),
    ("Ctrl+O", "opens an earlier chat"),
    ("Ctrl+P", "shows all commands"),
)


class Welcome(Static):
    """The idea in two lines, and the keys."""

    DEFAULT_CSS = """
    Welcome {
        width: auto;
        height: auto;
        margin: 0 2 1 2;
        color: $foreground-muted;
    }
    """

    def __init__(self) -> None:
        width = max(len(key) for key, _ in _KEYS) + 2
        keys = [Content.assemble((key.ljust(width), "$accent"), what) for key, what in _KEYS]
        idea = Content.assemble(
            ("A small model drafts, a large one decides.\n", "bold $foreground"),
            "You read the large one's words, sooner.\n",
        )
        super().__init__(Content("\n").join([idea, *keys]))
