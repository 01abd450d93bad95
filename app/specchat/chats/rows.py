"""How the records stand in the columns of the database."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from specchat.chats.records import Chat, ChatSummary, Message
from specengine.core.events import Unverified


def storable(text: str) -> str:
    """`text` with lone surrogates, which no UTF-8 file can hold, as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def pack(tokens: Sequence[int]) -> bytes:
    """Token ids as little-endian 32-bit integers."""
    return struct.pack(f"<{len(tokens)}I", *tokens)


def unpack(blob: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(blob) // 4}I", blob)


def stats_json(stats: dict[str, Any] | None) -> str | None:
    return None if stats is None else storable(json.dumps(stats, ensure_ascii=False))


def unverified_json(mark: Unverified | None) -> str | None:
    return None if mark is None else json.dumps(dataclasses.asdict(mark))


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def chat_of(row: sqlite3.Row) -> Chat:
    return Chat(**_shared(row), head_id=row["head_id"])


def summary_of(row: sqlite3.Row) -> ChatSummary:
    return ChatSummary(**_shared(row), message_count=row["message_count"])


def _shared(row: sqlite3.Row) -> dict[str, Any]:
    """What a chat and its summary have in common."""
    times = {name: _time(row[name]) for name in ("created_at", "updated_at")}
    return {**times, **{name: row[name] for name in ("id", "title", "profile")}}


def message_of(row: sqlite3.Row) -> Message:
    return Message(
        id=row["id"],
        chat_id=row["chat_id"],
        parent_id=row["parent_id"],
        role=row["role"],
        text=row["text"],
        tokens=unpack(row["tokens"]),
        status=row["status"],
        stats=json.loads(row["stats"]) if row["stats"] else None,
        model=row["model"],
        created_at=_time(row["created_at"]),
        unverified=Unverified(**json.loads(row["unverified"])) if row["unverified"] else None,
        reasoning=row["reasoning"],
        answer_at=row["answer_at"],
    )
