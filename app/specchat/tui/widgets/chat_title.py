"""The line at the top: which chat this is."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from specchat.printable import one_line
from specchat.tui.conversation import Conversation

_LENGTH_MAX = 200


class ChatTitle(Static):
    """The chat's title, or its first question."""

    DEFAULT_CSS = """
    ChatTitle {
        height: 1;
        padding: 0 2;
        color: $foreground-muted;
        background: $surface;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    """

    def show(self, conversation: Conversation) -> None:
        first = conversation.entries[0].text if conversation.entries else ""
        title = one_line((conversation.title or first)[:_LENGTH_MAX])
        self.update(Content.assemble(("specchat", "bold $accent"), "  ", title))
