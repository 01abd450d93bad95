"""What the chat store hands out: plain immutable records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from specengine.core.events import Unverified

Role = Literal["system", "user", "assistant"]

Status = Literal["streaming", "done", "stopped", "length", "failed", "interrupted"]
"""`streaming` while the answer is written; `interrupted` if its writer died meanwhile."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation: a tree of messages whose current branch ends at `head_id`."""

    id: int
    title: str
    profile: str
    created_at: datetime
    updated_at: datetime
    head_id: int | None


@dataclass(frozen=True, slots=True)
class ChatSummary:
    """A line in the list of chats. `message_count` counts all branches."""

    id: int
    title: str
    profile: str
    created_at: datetime
    updated_at: datetime
    message_count: int


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the tree; `parent_id` is None at a root.

    `tokens` are the answer's own ids in the vocabulary of `model`, empty if unknown.
    `stats` is whatever JSON object was recorded with the answer. `unverified` is where the words of
    a draft model begin that the target has not verified yet. `reasoning` is what was thought before
    the answer, whose own tokens begin at `answer_at`.
    """

    id: int
    chat_id: int
    parent_id: int | None
    role: Role
    text: str
    tokens: tuple[int, ...]
    status: Status
    stats: dict[str, Any] | None
    model: str | None
    created_at: datetime
    unverified: Unverified | None = None
    reasoning: str = ""
    answer_at: int = 0


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message (or, where `message_id` is None, a chat's title) that holds every searched word.

    `excerpt` is the text around the first word, on one line.
    """

    chat_id: int
    title: str
    message_id: int | None
    excerpt: str
