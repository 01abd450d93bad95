"""The branches of a chat: which messages stand in one another's place, and where a branch ends."""

from __future__ import annotations

import sqlite3
from collections import defaultdict

_FOLLOWING = """
    WITH RECURSIVE following (id) AS (
        SELECT id FROM messages WHERE chat_id = :chat AND id = :message
        UNION ALL
        SELECT messages.id FROM messages JOIN following
        ON messages.chat_id = :chat AND messages.parent_id = following.id
    )
    SELECT max(id) FROM following
"""


def versions(db: sqlite3.Connection, chat_id: int) -> dict[int, tuple[int, ...]]:
    """Under the id of each message that has others in its place: all of those, oldest first."""
    places: dict[tuple[int | None, str], list[int]] = defaultdict(list)
    query = "SELECT id, parent_id, role FROM messages WHERE chat_id = ? ORDER BY id"
    for message_id, parent_id, role in db.execute(query, (chat_id,)):
        places[parent_id, role].append(message_id)
    return {one: tuple(ids) for ids in places.values() if len(ids) > 1 for one in ids}


def newest_end(db: sqlite3.Connection, chat_id: int, message_id: int) -> int | None:
    """The newest message that follows `message_id`, itself where none does; None: it is gone."""
    row = db.execute(_FOLLOWING, {"chat": chat_id, "message": message_id}).fetchone()
    found: int | None = row[0]
    return found
