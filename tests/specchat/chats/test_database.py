"""The database file: upgraded with a copy kept, and every trouble told in one line."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from specchat.chats import ChatStore, GoneError, schema
from specchat.chats.database import Database
from specchat.errors import SpecchatError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "chats.db"


def filled(path: Path) -> None:
    store = ChatStore(path)
    store.add_message(store.create_chat("tiny").id, "user", "kept")
    store.close()


def one_line(error: pytest.ExceptionInfo[SpecchatError], path: Path) -> str:
    message = str(error.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_an_older_database_is_upgraded_and_a_copy_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path)
    version = len(schema.MIGRATIONS)
    step = ("ALTER TABLE chats ADD COLUMN pinned INTEGER NOT NULL DEFAULT 7",)
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, step])
    monkeypatch.setattr("specchat.chats.database.MIGRATIONS", schema.MIGRATIONS)
    store = ChatStore(path)
    assert [chat.title for chat in store.chats()] == ["kept"]
    store.close()

    with closing(sqlite3.connect(path)) as upgraded:
        assert upgraded.execute("SELECT title, pinned FROM chats").fetchall() == [("kept", 7)]
        assert upgraded.execute("PRAGMA user_version").fetchone() == (version + 1,)
    with closing(sqlite3.connect(path.with_name(f"chats-v{version}.db"))) as copy:
        assert copy.execute("SELECT text FROM messages").fetchall() == [("kept",)]
        assert copy.execute("PRAGMA user_version").fetchone() == (version,)


def test_the_first_layout_is_upgraded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as old:
        for statement in schema.MIGRATIONS[0]:
            old.execute(statement)
        old.execute("INSERT INTO chats VALUES (1, 'kept', 'tiny', 2e9, 2e9, 1)")
        old.execute(
            "INSERT INTO messages VALUES (1, 1, NULL, 'user', 'hi', x'', 'done', NULL, NULL, NULL,"
            " 2e9)"
        )
        old.execute("PRAGMA user_version = 1")
        old.commit()
    store = ChatStore(path)
    (message,) = store.messages(1)
    store.close()
    assert (message.text, message.unverified) == ("hi", None)
    assert (message.reasoning, message.answer_at) == ("", 0)


def test_a_failed_upgrade_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path)
    step = ("ALTER TABLE chats ADD COLUMN pinned INTEGER", "ALTER TABLE missing ADD COLUMN x")
    with monkeypatch.context() as patch:
        patch.setattr("specchat.chats.database.MIGRATIONS", [*schema.MIGRATIONS, step])
        with pytest.raises(SpecchatError) as error:
            ChatStore(path)
    assert "missing" in one_line(error, path)
    store = ChatStore(path)
    assert [chat.title for chat in store.chats()] == ["kept"]
    store.close()


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)


def make_newer(path: Path) -> None:
    filled(path)
    execute(path, "PRAGMA user_version = 99")


def damage(path: Path) -> None:
    filled(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (make_newer, "schema 99"),
        (lambda path: execute(path, "CREATE TABLE notes (x)"), "another program"),
        (lambda path: path.write_bytes(b"<!DOCTYPE html>" * 100), "not a chat database"),
        (damage, "damaged"),
        (Path.mkdir, "cannot be opened"),
    ],
    ids=["newer", "of another program", "a web page", "damaged", "a folder"],
)
def test_what_cannot_be_used_is_told_and_not_touched(
    path: Path, spoil: Callable[[Path], object], cause: str
) -> None:
    path.parent.mkdir()
    spoil(path)
    before = path.is_file() and path.read_bytes()
    with pytest.raises(SpecchatError) as error:
        ChatStore(path).chats()
    assert cause in one_line(error, path)
    assert (path.is_file() and path.read_bytes()) == before
    beside = {file.name for file in path.parent.iterdir()} - {"chats.db-wal", "chats.db-shm"}
    assert beside == {"chats.db"}  # nothing is upgraded


def test_a_transaction_that_will_write_keeps_other_writers_out_from_its_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one that has read already could not write any more, however long it waits."""
    monkeypatch.setattr("specchat.chats.database._BUSY_TIMEOUT_S", 0.0)
    filled(path)
    one, other = Database(path), Database(path)
    with one.writing():
        entered = False
        with pytest.raises(SpecchatError, match="locked"), other.writing():
            entered = True
        assert not entered
        with other.reading() as db:  # who only reads is not kept waiting
            assert db.execute("SELECT text FROM messages").fetchone()[0] == "kept"
    with other.writing() as db:
        db.execute("UPDATE messages SET text = 'changed'")
    one.close()
    other.close()


def test_a_full_disk_is_told_and_what_was_written_stays(path: Path) -> None:
    filled(path)
    store = ChatStore(path)
    with store._database.reading() as db:
        db.execute("PRAGMA max_page_count = 1")  # SQLite takes the present size as the least
    with pytest.raises(SpecchatError) as error:
        store.add_message(1, "user", "x" * 1_000_000)
    assert "disk is full" in one_line(error, path)
    assert [message.text for message in store.messages(1)] == ["kept"]
    store.close()


_OPEN_AS_NOBODY = """
import os, sys
from pathlib import Path
from specchat.chats import ChatStore
if os.getuid() == 0:  # the superuser may write anywhere
    os.setuid(65534)
try:
    ChatStore(Path(sys.argv[1])).create_chat("tiny")
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no write permission bit")
def test_a_folder_that_cannot_be_written_is_told() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chats.db"
        filled(path)
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        command = [sys.executable, "-c", _OPEN_AS_NOBODY, str(path)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        Path(folder).chmod(0o755)
    assert result.stdout.startswith(f"SpecchatError {path}: it cannot be ")
    assert "writable" in result.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be deleted there")
@pytest.mark.parametrize("in_its_place", [None, b""])
def test_a_file_that_is_deleted_while_it_is_open_takes_no_message_unsaid(
    path: Path, in_its_place: bytes | None
) -> None:
    filled(path)
    store = ChatStore(path)
    path.rename(path.with_name("elsewhere.db"))
    if in_its_place is not None:
        path.write_bytes(in_its_place)
    with pytest.raises(GoneError) as error:
        store.add_message(1, "user", "into nowhere")
    assert "deleted or replaced" in one_line(error, path)
    store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are kept elsewhere there")
def test_nobody_else_may_read_what_was_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path)
    version = len(schema.MIGRATIONS)
    monkeypatch.setattr("specchat.chats.database.MIGRATIONS", [*schema.MIGRATIONS, ()])
    store = ChatStore(path)
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    store.close()
    assert modes.keys() >= {"chats.db", "chats.db-wal", f"chats-v{version}.db"}
    assert set(modes.values()) == {0o600}
