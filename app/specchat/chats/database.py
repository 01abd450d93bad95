"""One connection to the chat database: opening, upgrading, transactions, errors as one line."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from specchat.chats.errors import GoneError
from specchat.chats.schema import MIGRATIONS
from specchat.config.private_file import create_private
from specchat.errors import SpecchatError

_BUSY_TIMEOUT_S = 10.0

_REMEDIES = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space and try again",
    sqlite3.SQLITE_READONLY: "it cannot be written: make the file and its folder writable",
    sqlite3.SQLITE_PERM: "it cannot be written: make the file and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check that its folder exists and is writable",
    sqlite3.SQLITE_CORRUPT: (
        "it is damaged: move it away to start with a new one, or restore a backup"
    ),
    sqlite3.SQLITE_NOTADB: "it is not a chat database: move it away to start with a new one",
    sqlite3.SQLITE_BUSY: "another program keeps it locked: close that program and try again",
    sqlite3.SQLITE_LOCKED: "another program keeps it locked: close that program and try again",
    sqlite3.SQLITE_IOERR: "it cannot be read or written: check the disk",
}


class Database:
    """A connection that threads may share: one transaction at a time, each committed at its end."""

    def __init__(self, path: Path) -> None:
        """Opens `path`, created or upgraded as needed. Raises SpecchatError, one line."""
        self.path = path
        self._lock = threading.RLock()
        with self._one_line_errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            create_private(path)
            self._connection = self._connect()
            self._file = _identity(path)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent view of the data."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock from its start, so nobody interleaves with it."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, self._one_line_errors():
            self._require_file()
            self._connection.execute(begin)
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # A full disk makes SQLite roll back by itself.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _require_file(self) -> None:
        """Raises GoneError if others would not see what is written: SQLite goes on as if nothing
        had happened in a file that was deleted, or that lies under another one.
        """
        if _identity(self.path) != self._file:
            raise GoneError(f"{self.path} was deleted or replaced while it was open")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        connection.row_factory = sqlite3.Row
        return connection

    def _prepare(self) -> None:
        with self._transaction("BEGIN"):  # before anything that could change the file
            version = self._version()
        self._use_write_ahead_log()
        # In WAL mode a killed process loses nothing with this, and a power cut at most the
        # last moments; the database stays whole either way.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute("PRAGMA foreign_keys = ON")
        if version < len(MIGRATIONS):
            self._upgrade()

    def _version(self) -> int:
        """The schema's version, read in a transaction; raises where this program cannot use it."""
        version = int(self._scalar("PRAGMA user_version"))
        if version > len(MIGRATIONS):
            raise SpecchatError(
                f"{self.path}: written by a newer specchat (schema {version}, this one knows "
                f"{len(MIGRATIONS)}): upgrade specchat, or set SPECCHAT_HOME to another folder"
            )
        if version == 0 and self._scalar("SELECT count(*) FROM sqlite_master"):
            raise SpecchatError(
                f"{self.path}: this is another program's database: move it away to start with a "
                "new one"
            )
        return version

    def _use_write_ahead_log(self) -> None:
        # Two programs that switch a new file at the same time get "locked" at once: SQLite
        # does not wait here as it does elsewhere.
        deadline = time.monotonic() + _BUSY_TIMEOUT_S
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _upgrade(self) -> None:
        with self._transaction("BEGIN IMMEDIATE"):
            version = self._version()  # another program may have upgraded it meanwhile
            if 0 < version < len(MIGRATIONS):
                self._keep_copy(version)
            for step in MIGRATIONS[version:]:
                for statement in step:
                    self._connection.execute(statement)
            self._connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def _keep_copy(self, version: int) -> None:
        copy = self.path.with_name(f"{self.path.stem}-v{version}{self.path.suffix}")
        unfinished = copy.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        create_private(unfinished)
        # A second connection, because one in a write transaction cannot be the source.
        with closing(self._connect()) as source, closing(sqlite3.connect(unfinished)) as target:
            source.backup(target)
        unfinished.replace(copy)

    def _scalar(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()[0]

    @contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            remedy = _REMEDIES.get(_primary_code(error), str(error))
            raise SpecchatError(f"{self.path}: {remedy}") from error
        except OSError as error:
            raise SpecchatError(f"{self.path}: {error.strerror or error}") from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file `path` leads to; None if it leads to none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without the extension in the higher bits; -1 where there is none."""
    return (getattr(error, "sqlite_errorcode", -1) or -1) & 0xFF
