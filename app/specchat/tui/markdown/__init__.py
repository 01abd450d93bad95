"""Markdown that grows while it is shown, laid out as rows of text instead of a tree of widgets."""

from specchat.tui.markdown.document import Document
from specchat.tui.markdown.marked import MarkedDocument

__all__ = ["Document", "MarkedDocument"]
