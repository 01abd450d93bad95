"""Search that ignores case and diacritics, and finds words in scripts that use no spaces."""

from __future__ import annotations

import re
import sqlite3
import unicodedata

from specchat.chats.records import SearchHit

# Letters that Unicode does not decompose into a base letter and a mark.
_BASE_LETTERS = str.maketrans({"đ": "d", "ø": "o", "ł": "l"})

_MARKS = re.compile("[\u0300-\u036f]")

# Thai, Lao, Burmese, Khmer, kana and Chinese characters: runs of them are not words.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff])"
)

_EXCERPT_LENGTH = 120


def fold(text: str) -> str:
    """`text` in lower case without diacritics: "Đường phố" becomes "duong pho"."""
    bare = _MARKS.sub("", unicodedata.normalize("NFD", text.casefold()))
    return unicodedata.normalize("NFC", bare).translate(_BASE_LETTERS)


def index_message(db: sqlite3.Connection, message_id: int, text: str) -> None:
    """Makes `text` what is found under `message_id`."""
    db.execute(
        "INSERT OR REPLACE INTO messages_index (rowid, text) VALUES (?, ?)",
        (message_id, _searchable(text)),
    )


def find(db: sqlite3.Connection, query: str, limit: int) -> list[SearchHit]:
    """At most `limit` messages whose text, or else chats whose title, holds every word."""
    words = [word for word in query.split() if _has_letters(word)]
    if not words:
        return []
    messages = _find_messages(db, words, limit)
    shown = {hit.chat_id for hit in messages}
    titles = [hit for hit in _find_titles(db, words) if hit.chat_id not in shown]
    return (titles + messages)[:limit]


def excerpt(text: str, words: list[str]) -> str:
    """The part of `text`, made one line, around the first of `words` in it."""
    line = " ".join(text.split())
    folded, origins = _fold_with_origins(line)
    found = [folded.find(fold(word)) for word in words]
    first = min((origins[i] for i in found if i >= 0), default=0)
    start = max(0, min(first - _EXCERPT_LENGTH // 3, len(line) - _EXCERPT_LENGTH))
    end = start + _EXCERPT_LENGTH
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")


def _find_titles(db: sqlite3.Connection, words: list[str]) -> list[SearchHit]:
    folded_words = [fold(word) for word in words]
    return [
        SearchHit(chat_id, title, None, title)
        for chat_id, title in db.execute("SELECT id, title FROM chats ORDER BY updated_at DESC")
        if all(word in fold(title) for word in folded_words)
    ]


def _find_messages(db: sqlite3.Connection, words: list[str], limit: int) -> list[SearchHit]:
    rows = db.execute(
        """
        SELECT messages.chat_id, chats.title, messages.id, messages.text
        FROM messages_index
        JOIN messages ON messages.id = messages_index.rowid
        JOIN chats ON chats.id = messages.chat_id
        WHERE messages_index MATCH ? ORDER BY rank LIMIT ?
        """,
        (_match_expression(words), limit),
    )
    return [
        SearchHit(chat_id, title, message_id, excerpt(text, words))
        for chat_id, title, message_id, text in rows
    ]


def _match_expression(words: list[str]) -> str:
    """The FTS5 expression for all `words`, each the beginning of a word of the text.

    Quoted, so that nothing in a word is an operator; what the tokenizer splits further
    ("a-b", a run of Chinese) matches as a phrase.
    """
    quoted = [_searchable(word).replace("\0", " ").replace('"', '""') for word in words]
    return " ".join(f'"{word}"*' for word in quoted)


def _searchable(text: str) -> str:
    """The form that is indexed: folded, and unspaced scripts taken character by character."""
    return _UNSPACED.sub(r" \1 ", fold(text))


def _has_letters(word: str) -> bool:
    """Whether the tokenizer finds anything in `word`."""
    return any(unicodedata.category(character)[0] in "LN" for character in word)


def _fold_with_origins(text: str) -> tuple[str, list[int]]:
    """`fold(text)` character by character, and where each folded character came from."""
    pieces = [fold(character) for character in text]
    origins = [i for i, piece in enumerate(pieces) for _ in piece]
    return "".join(pieces), origins
