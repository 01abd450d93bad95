"""Answers and chats as files."""

from __future__ import annotations

import os
import tempfile
from datetime import datetime
from pathlib import Path

from specchat.chats.markdown import NAMES
from specchat.tui.conversation import Conversation


def save_text(text: str) -> Path:
    """Writes `text` to a new file in the current folder, named by the time. Raises OSError."""
    path = Path.cwd() / f"answer-{datetime.now():%Y%m%d-%H%M%S}.md"
    with path.open("x", encoding="utf-8") as file:
        file.write(text + "\n")
    return path


def save_recovered(conversation: Conversation, unsent: str) -> Path:
    """Writes the branch on the screen, and what was typed and not sent, to a new file in the
    temporary folder, which nobody else may read. Raises OSError.
    """
    number, name = tempfile.mkstemp(prefix="specchat-", suffix=".md")
    try:
        with os.fdopen(number, "w", encoding="utf-8", errors="replace") as file:
            file.write(recovered(conversation, unsent))
    except OSError:
        Path(name).unlink()
        raise
    return Path(name)


def recovered(conversation: Conversation, unsent: str) -> str:
    """The branch on the screen, and what was typed and not sent, as Markdown."""
    parts = [(NAMES[entry.role], entry.text) for entry in conversation.entries]
    if unsent:
        parts.append(("Typed and not sent", unsent))
    return "\n".join(f"## {title}\n\n{text}\n" for title, text in parts)
