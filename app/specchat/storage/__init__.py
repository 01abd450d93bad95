"""Chats on disk: one SQLite database that several copies of the program may share."""

from specchat.storage.errors import GoneError
from specchat.storage.records import Chat, ChatSummary, Message, Role, SearchHit, Status
from specchat.storage.store import ChatStore

__all__ = [
    "Chat",
    "ChatStore",
    "ChatSummary",
    "GoneError",
    "Message",
    "Role",
    "SearchHit",
    "Status",
]
