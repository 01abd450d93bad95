"""Chats on disk: one SQLite database that several copies of the program may share."""

from specchat.chats.errors import GoneError
from specchat.chats.records import Chat, ChatSummary, Message, Role, SearchHit, Status
from specchat.chats.store import ChatStore

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
