"""The database's layout, as the list of steps that lead to it.

`PRAGMA user_version` counts the steps a file has seen. A step never changes once released;
a change of layout is a new step at the end.
"""

from __future__ import annotations

_VERSION_1 = (
    # AUTOINCREMENT: the id of a deleted message is never given out again, so a copy of the
    # program that still streams into it cannot write into somebody else's message.
    """
    CREATE TABLE chats (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        profile TEXT NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        head_id INTEGER REFERENCES messages (id) ON DELETE SET NULL
    )
    """,
    """
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        chat_id INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
        parent_id INTEGER,
        role TEXT NOT NULL,
        text TEXT NOT NULL,
        tokens BLOB NOT NULL,
        status TEXT NOT NULL,
        writer TEXT,
        stats TEXT,
        model TEXT,
        created_at REAL NOT NULL,
        UNIQUE (chat_id, id),
        FOREIGN KEY (chat_id, parent_id) REFERENCES messages (chat_id, id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX messages_by_parent ON messages (chat_id, parent_id)",
    "CREATE INDEX messages_streaming ON messages (status) WHERE status = 'streaming'",
    "CREATE INDEX chats_by_update ON chats (updated_at)",
    # Holds what search.searchable() makes of each finished message, under the message's id.
    """
    CREATE VIRTUAL TABLE messages_index
    USING fts5 (text, tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3')
    """,
    """
    CREATE TRIGGER messages_deleted AFTER DELETE ON messages
    BEGIN
        DELETE FROM messages_index WHERE rowid = old.id;
    END
    """,
)

# A JSON object, as specengine.core.events.Unverified; NULL where all of the text is verified.
_VERSION_2 = ("ALTER TABLE messages ADD COLUMN unverified TEXT",)

# What was thought before an answer, and the index of the answer's first token. Texts of before keep
# the marks of their thoughts, as the model wrote them.
_VERSION_3 = (
    "ALTER TABLE messages ADD COLUMN reasoning TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE messages ADD COLUMN answer_at INTEGER NOT NULL DEFAULT 0",
)

MIGRATIONS: list[tuple[str, ...]] = [_VERSION_1, _VERSION_2, _VERSION_3]
"""`MIGRATIONS[n]` are the statements that bring a database of version n to version n + 1."""
