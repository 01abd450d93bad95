"""Where the person types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import TextArea

from specchat.printable import printable
from specchat.tui.conversation import Entry

_HINT = "Enter sends · Ctrl+J new line · Ctrl+P commands"
_SHORT_HINT = "Ctrl+P commands"

# Terminals tell Shift+Enter apart only with the Kitty protocol or xterm's; Ctrl+J always comes.
_NEWLINE = "shift+enter,shift+\r,ctrl+j"

# Longer pastes are a mark in the prompt: no one edits them there, and laying them out takes long.
_EDITABLE_MAX = 20_000


class Prompt(TextArea):
    """Enter sends, Shift+Enter or Ctrl+J breaks the line, Up in an empty prompt asks for the last
    message back. What is pasted holds no control characters afterwards.
    """

    DEFAULT_CSS = """
    Prompt {
        height: auto;
        min-height: 3;
        max-height: 12;
        margin: 0 1;
        padding: 0 1;
        background: $background;
        border: round $foreground 25%;
        border-title-color: $accent;
        border-subtitle-color: $foreground-muted;

        &:focus { border: round $accent 70%; background-tint: $foreground 0%; }
        & .text-area--cursor-line { background: transparent; }
        & .text-area--placeholder { color: $foreground-muted; }
    }
    .-short Prompt { max-height: 5; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Send"),
        Binding(_NEWLINE, "newline", "New line"),
        Binding("up", "previous", "Edit the last message", show=False),
        Binding("pageup", "screen.scroll_transcript('page_up')", "Scroll up", show=False),
        Binding("pagedown", "screen.scroll_transcript('page_down')", "Scroll down", show=False),
        Binding("ctrl+home", "screen.scroll_transcript('home')", "To the start", show=False),
        Binding("ctrl+end", "screen.scroll_transcript('end')", "To the end", show=False),
        Binding("ctrl+d", "delete_or_quit", "Delete, or leave", show=False),
    ]

    editing: reactive[Entry | None] = reactive(None)
    """The earlier question that what is typed is to take the place of."""

    @dataclass
    class Submitted(Message):
        """The person sent `text`, which is not blank."""

        text: str

    class PreviousRequested(Message):
        """The person wants to edit the last message."""

    def __init__(self) -> None:
        super().__init__(placeholder="Ask anything", highlight_cursor_line=False)
        self._folded: dict[str, str] = {}

    @property
    def message(self) -> str:
        """What would be sent: the text, with long pastes in place of their marks."""
        if not self._folded:
            return self.text
        marks = re.compile("|".join(map(re.escape, self._folded)))
        return marks.sub(lambda mark: self._folded[mark[0]], self.text)

    def fill(self, text: str) -> None:
        """Puts `text` in place of what is there."""
        self.text = self._fold(printable(text))
        self.move_cursor(self.document.end)

    def watch_editing(self, question: Entry | None) -> None:
        self.border_title = "editing the last message · Esc leaves it" if question else ""

    def on_paste(self, event: events.Paste) -> None:
        # Terminals send line ends as carriage returns, as if Enter had been pressed.
        lines = event.text.replace("\r\n", "\n").replace("\r", "\n")
        event.text = self._fold(printable(lines))

    def _fold(self, text: str) -> str:
        """`text`, or a mark that stands for it where editing it would be slow."""
        if len(text) <= _EDITABLE_MAX:
            return text
        lines = text.count("\n") + 1
        mark = f"⟦paste {len(self._folded) + 1}: {len(text):,} characters, {lines:,} lines⟧"
        self._folded[mark] = text
        return mark

    def on_key(self, event: events.Key) -> None:
        """Both keys take effect here, in the order of typing: a binding's turn comes later, when
        characters typed after it may already stand in the text.
        """
        if event.key == "enter":
            self.action_submit()
        elif event.key in _NEWLINE.split(","):
            self.action_newline()
        else:
            return
        event.stop()
        event.prevent_default()

    def action_submit(self) -> None:
        text = self.message.strip("\n")
        if text.strip():
            self.clear()
            self.post_message(self.Submitted(text))

    def action_newline(self) -> None:
        self.replace("\n", *self.selection)

    def action_previous(self) -> None:
        if self.text:
            self.action_cursor_up()
        else:
            self.post_message(self.PreviousRequested())

    async def action_delete_or_quit(self) -> None:
        """As in a shell: Ctrl+D leaves where there is nothing to delete."""
        if self.text:
            self.action_delete_right()
        else:
            await self.app.run_action("quit")

    def on_resize(self) -> None:
        self.border_subtitle = _HINT if self.size.width >= len(_HINT) + 4 else _SHORT_HINT
