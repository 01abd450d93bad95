"""Messages that wait for the present answer to end."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from specchat.printable import one_line

_LENGTH_MAX = 200


class Queue(Static):
    """Sent in order; given back to the prompt when the answer is stopped."""

    DEFAULT_CSS = """
    Queue {
        display: none;
        height: auto;
        max-height: 3;
        padding: 0 3;
        color: $foreground-muted;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._texts: list[str] = []

    def push(self, text: str) -> None:
        self._texts.append(text)
        self._show()

    def pop(self) -> str | None:
        """The first one, or None."""
        text = self._texts.pop(0) if self._texts else None
        self._show()
        return text

    def take_all(self) -> list[str]:
        texts, self._texts = self._texts, []
        self._show()
        return texts

    def _show(self) -> None:
        self.display = bool(self._texts)
        lines = [f"↳ {one_line(text[:_LENGTH_MAX])}" for text in self._texts]
        self.update(Content("\n".join(lines)))
