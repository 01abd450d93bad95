"""The chat store: chats, and the tree of messages of each."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from specchat.chats import branches, search
from specchat.chats.database import Database
from specchat.chats.errors import GoneError
from specchat.chats.liveness import is_running, process_mark
from specchat.chats.records import Chat, ChatSummary, Message, Role, SearchHit, Status
from specchat.chats.rows import (
    chat_of,
    message_of,
    pack,
    stats_json,
    storable,
    summary_of,
    unpack,
    unverified_json,
)
from specengine.core.events import Unverified

_TITLE_LENGTH = 60

_SUMMARIES = """
    SELECT id, title, profile, created_at, updated_at,
           (SELECT count(*) FROM messages WHERE chat_id = chats.id) AS message_count
    FROM chats ORDER BY updated_at DESC, id DESC LIMIT ?
"""

_BRANCH = """
    WITH RECURSIVE branch (id, depth) AS (
        SELECT head_id, 0 FROM chats WHERE id = ? AND head_id IS NOT NULL
        UNION ALL
        SELECT parent_id, depth + 1 FROM messages JOIN branch USING (id)
        WHERE parent_id IS NOT NULL
    )
    SELECT messages.* FROM branch JOIN messages USING (id) ORDER BY depth DESC
"""

_ANSWERS = """
    SELECT tokens FROM messages
    WHERE role = 'assistant' AND model = ? AND tokens != x'' ORDER BY id DESC
"""

# || makes text of two blobs without looking at their bytes; the cast undoes that.
_APPEND = """
    UPDATE messages SET text = text || ?, tokens = CAST(tokens || ? AS BLOB), unverified = ?,
        reasoning = reasoning || ?, answer_at = ?
    WHERE id = ?
"""


class ChatStore:
    """Chats in one SQLite file that several threads and several programs may use at once.

    Every call is one short transaction, committed when it returns. Every method raises
    SpecchatError, one line, where the file cannot be used: GoneError where the chat or message was
    deleted, or the file itself since it was opened.
    """

    def __init__(self, path: Path, on_delete: Callable[[int], None] = lambda chat_id: None) -> None:
        """Opens the store; answers whose writer has died are `interrupted` from now on.

        `on_delete` hears of a chat that was deleted: what is kept of it elsewhere has to go, too.
        """
        self._database = Database(path)
        self._on_delete = on_delete
        self._writer = process_mark()
        self._mark_interrupted()

    def close(self) -> None:
        self._database.close()

    def check(self) -> None:
        """Raises GoneError if the file that was opened is gone."""
        with self._database.reading():
            pass

    def chats(self, limit: int = 200) -> list[ChatSummary]:
        """At most `limit` chats (-1: all), those changed last first."""
        with self._database.reading() as db:
            return [summary_of(row) for row in db.execute(_SUMMARIES, (limit,))]

    def chat(self, chat_id: int) -> Chat:
        with self._database.reading() as db:
            return chat_of(_chat_row(db, chat_id))

    def create_chat(self, profile: str, title: str = "") -> Chat:
        """A chat without messages; an empty title becomes the start of the first question."""
        now = time.time()
        with self._database.writing() as db:
            chat_id = _insert(
                db,
                "chats",
                title=storable(title),
                profile=storable(profile),
                created_at=now,
                updated_at=now,
            )
            return chat_of(_chat_row(db, chat_id))

    def delete_chat(self, chat_id: int) -> None:
        with self._database.writing() as db:
            _chat_row(db, chat_id)
            db.execute("DELETE FROM chats WHERE id = ?", (chat_id,))
        self._on_delete(chat_id)

    def set_head(self, chat_id: int, message_id: int | None) -> None:
        """Makes the branch that ends at `message_id` the current one; None: before any message."""
        with self._database.writing() as db:
            _chat_row(db, chat_id)
            if message_id is not None:
                _message_row(db, chat_id, message_id)
            db.execute("UPDATE chats SET head_id = ? WHERE id = ?", (message_id, chat_id))

    def messages(self, chat_id: int) -> list[Message]:
        """The current branch, oldest first."""
        with self._database.reading() as db:
            _chat_row(db, chat_id)
            return [message_of(row) for row in db.execute(_BRANCH, (chat_id,))]

    def tree(self, chat_id: int) -> list[Message]:
        """Every message of every branch, in the order in which they were added."""
        with self._database.reading() as db:
            _chat_row(db, chat_id)
            rows = db.execute("SELECT * FROM messages WHERE chat_id = ? ORDER BY id", (chat_id,))
            return [message_of(row) for row in rows]

    def answers(self, model: str, max_tokens: int) -> list[tuple[int, ...]]:
        """Token ids of the newest answers of `model` in all chats and branches, oldest first;
        as many as have at most `max_tokens` together.
        """
        found: list[tuple[int, ...]] = []
        with self._database.reading() as db:
            for (blob,) in db.execute(_ANSWERS, (model,)):
                tokens = unpack(blob)
                max_tokens -= len(tokens)
                if max_tokens < 0:
                    break
                found.append(tokens)
        return found[::-1]

    def add_message(
        self,
        chat_id: int,
        role: Role,
        text: str,
        *,
        parent_id: int | None = None,
        tokens: Sequence[int] = (),
        status: Status = "done",
        model: str | None = None,
        unverified: Unverified | None = None,
        reasoning: str = "",
        answer_at: int = 0,
        is_head: bool = True,
    ) -> Message:
        """Adds a message after `parent_id` (None: after the head), as the new head or beside it."""
        now = time.time()
        text = storable(text)
        with self._database.writing() as db:
            chat = _chat_row(db, chat_id)
            if parent_id is None:
                parent_id = chat["head_id"]
            else:
                _message_row(db, chat_id, parent_id)
            message_id = _insert(
                db,
                "messages",
                chat_id=chat_id,
                parent_id=parent_id,
                role=role,
                text=text,
                tokens=pack(tokens),
                status=status,
                writer=self._writer if status == "streaming" else None,
                model=model and storable(model),
                created_at=now,
                unverified=unverified_json(unverified),
                reasoning=storable(reasoning),
                answer_at=answer_at,
            )
            if status != "streaming":
                search.index_message(db, message_id, text)
            title = chat["title"] or (_title_of(text) if role == "user" else "")
            db.execute(
                "UPDATE chats SET head_id = ?, title = ?, updated_at = ? WHERE id = ?",
                (message_id if is_head else chat["head_id"], title, now, chat_id),
            )
            return message_of(_message_row(db, chat_id, message_id))

    def versions(self, chat_id: int) -> dict[int, tuple[int, ...]]:
        """Under the id of each message that has others in its place, in other branches: the ids of
        all of those, oldest first.
        """
        with self._database.reading() as db:
            return branches.versions(db, chat_id)

    def go_to(self, chat_id: int, message_id: int) -> None:
        """Makes the branch through `message_id` the current one, the newest there is."""
        with self._database.writing() as db:
            _message_row(db, chat_id, message_id)
            end = branches.newest_end(db, chat_id, message_id)
            db.execute("UPDATE chats SET head_id = ? WHERE id = ?", (end, chat_id))

    def append_to_message(
        self,
        message_id: int,
        text: str,
        tokens: Sequence[int],
        unverified: Unverified | None = None,
        reasoning: str = "",
        answer_at: int = 0,
    ) -> None:
        """Adds what has streamed in since the last call; `unverified` and `answer_at` are of all of
        it.
        """
        new = storable(text), pack(tokens), unverified_json(unverified), storable(reasoning)
        with self._database.writing() as db:
            cursor = db.execute(_APPEND, (*new, answer_at, message_id))
            _require_changed(cursor, message_id)

    def finish_message(
        self,
        message_id: int,
        *,
        text: str,
        tokens: Sequence[int],
        status: Status,
        stats: dict[str, Any] | None,
        unverified: Unverified | None = None,
        reasoning: str = "",
        answer_at: int = 0,
    ) -> None:
        """Replaces what has streamed in by the answer as it is now."""
        text = storable(text)
        with self._database.writing() as db:
            cursor = db.execute(
                "UPDATE messages SET text = ?, tokens = ?, status = ?, stats = ?, unverified = ?,"
                " reasoning = ?, answer_at = ?, writer = ? WHERE id = ?",
                (
                    text,
                    pack(tokens),
                    status,
                    stats_json(stats),
                    unverified_json(unverified),
                    storable(reasoning),
                    answer_at,
                    self._writer if status == "streaming" else None,
                    message_id,
                ),
            )
            _require_changed(cursor, message_id)
            if status != "streaming":
                search.index_message(db, message_id, text)
            db.execute(
                "UPDATE chats SET updated_at = ?"
                " WHERE id = (SELECT chat_id FROM messages WHERE id = ?)",
                (time.time(), message_id),
            )

    def search(self, query: str, limit: int = 50) -> list[SearchHit]:
        """Finished messages, best first, or else chats' titles that hold every word of `query`.

        Case and diacritics do not count, and words may be beginnings: "duon" finds "Đường".
        """
        with self._database.reading() as db:
            return search.find(db, storable(query), limit)

    def add_chat(self, chat: Chat, messages: Sequence[Message]) -> int:
        """Adds a copy of a chat with its whole tree, parents before children; returns its new id.

        The records' own ids only say how they hang together.
        """
        with self._database.writing() as db:
            chat_id = _insert(
                db,
                "chats",
                title=storable(chat.title),
                profile=storable(chat.profile),
                created_at=chat.created_at.timestamp(),
                updated_at=chat.updated_at.timestamp(),
            )
            new_ids: dict[int | None, int | None] = {None: None}
            for message in messages:
                text = storable(message.text)
                new_ids[message.id] = message_id = _insert(
                    db,
                    "messages",
                    chat_id=chat_id,
                    parent_id=new_ids[message.parent_id],
                    role=message.role,
                    text=text,
                    tokens=pack(message.tokens),
                    status="interrupted" if message.status == "streaming" else message.status,
                    stats=stats_json(message.stats),
                    model=message.model and storable(message.model),
                    created_at=message.created_at.timestamp(),
                    unverified=unverified_json(message.unverified),
                    reasoning=storable(message.reasoning),
                    answer_at=message.answer_at,
                )
                search.index_message(db, message_id, text)
            db.execute(
                "UPDATE chats SET head_id = ? WHERE id = ?", (new_ids[chat.head_id], chat_id)
            )
            return chat_id

    def _mark_interrupted(self) -> None:
        with self._database.reading() as db:
            writers = db.execute("SELECT writer FROM messages WHERE status = 'streaming'")
            dead = {writer for (writer,) in writers if not is_running(writer or "")}
        if not dead:
            return
        with self._database.writing() as db:
            rows = db.execute("SELECT id, writer, text FROM messages WHERE status = 'streaming'")
            for message_id, writer, text in rows.fetchall():
                if writer in dead:
                    db.execute(
                        "UPDATE messages SET status = 'interrupted', writer = NULL WHERE id = ?",
                        (message_id,),
                    )
                    search.index_message(db, message_id, text)


def _insert(db: sqlite3.Connection, table: str, **values: object) -> int:
    columns = ", ".join(values)
    places = ", ".join(f":{column}" for column in values)
    cursor = db.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", values)  # noqa: S608
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _chat_row(db: sqlite3.Connection, chat_id: int) -> sqlite3.Row:
    row: sqlite3.Row | None = db.execute("SELECT * FROM chats WHERE id = ?", (chat_id,)).fetchone()
    if row is None:
        raise GoneError(f"there is no chat {chat_id}: `specchat sessions list` shows the chats")
    return row


def _message_row(db: sqlite3.Connection, chat_id: int, message_id: int) -> sqlite3.Row:
    query = "SELECT * FROM messages WHERE chat_id = ? AND id = ?"
    row: sqlite3.Row | None = db.execute(query, (chat_id, message_id)).fetchone()
    if row is None:
        raise GoneError(f"there is no message {message_id} in chat {chat_id}")
    return row


def _require_changed(cursor: sqlite3.Cursor, message_id: int) -> None:
    if cursor.rowcount == 0:
        raise GoneError(f"message {message_id} no longer exists: its chat was deleted meanwhile")


def _title_of(question: str) -> str:
    line = " ".join(question.split())
    return line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1].rstrip() + "…"
