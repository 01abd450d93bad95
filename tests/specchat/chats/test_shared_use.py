"""Two copies of the program on one database, and copies that are killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from specchat.chats import ChatStore

_WRITE_MANY = """
import sys
import time
from pathlib import Path
from specchat.chats import ChatStore
store = ChatStore(Path(sys.argv[1]))
for i in range(40):
    chat = store.create_chat("tiny", title=f"{sys.argv[2]} {i}")
    answer = store.add_message(chat.id, "assistant", "", status="streaming")
    for piece in "abc":
        store.append_to_message(answer.id, piece, [i])
    store.finish_message(answer.id, text="abc", tokens=[i] * 3, status="done", stats=None)
"""

_OPEN_AT = """
import sys, time
from pathlib import Path
from specchat.chats import ChatStore
time.sleep(max(0.0, float(sys.argv[2]) - time.time()))
ChatStore(Path(sys.argv[1])).create_chat("tiny")
"""

_STREAM_FOREVER = """
import sys
import time
from pathlib import Path
from specchat.chats import ChatStore
store = ChatStore(Path(sys.argv[1]))
chat = store.create_chat("tiny")
store.add_message(chat.id, "user", "question")
answer = store.add_message(chat.id, "assistant", "", status="streaming")
for i in range(1_000_000):
    store.append_to_message(answer.id, "từ ", [i])
    print(i, flush=True)
"""


def start(code: str, path: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, str(path), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_copies_that_start_and_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    names = ["a", "b", "c", "d"]
    copies = [start(_WRITE_MANY, path, name) for name in names]
    for copy in copies:
        _, errors = copy.communicate(timeout=120)
        assert (copy.returncode, errors) == (0, "")
    store = ChatStore(path)
    chats = store.chats(limit=1000)
    assert {chat.title for chat in chats} == {f"{n} {i}" for n in names for i in range(40)}
    for chat in chats:
        [message] = store.messages(chat.id)
        assert (message.text, message.status, len(message.tokens)) == ("abc", "done", 3)
    store.close()


@pytest.mark.parametrize("attempt", range(3))
def test_copies_may_make_the_database_at_the_same_moment(tmp_path: Path, attempt: int) -> None:
    path = tmp_path / "chats.db"
    moment = str(time.time() + 1.0)
    for copy in [start(_OPEN_AT, path, moment) for _ in range(6)]:
        _, errors = copy.communicate(timeout=60)
        assert errors == ""
    store = ChatStore(path)
    assert len(store.chats()) == 6
    store.close()


def test_a_copy_that_reads_does_not_keep_another_from_writing(tmp_path: Path) -> None:
    reader, writer = ChatStore(tmp_path / "chats.db"), ChatStore(tmp_path / "chats.db")
    with reader._database.reading() as db:
        assert db.execute("SELECT count(*) FROM chats").fetchone()[0] == 0
        writer.create_chat("tiny")
    assert len(reader.chats()) == 1
    reader.close()
    writer.close()


@pytest.fixture
def streaming(tmp_path: Path) -> subprocess.Popen[str]:
    """A copy of the program that has streamed ten pieces of an answer and goes on."""
    process = start(_STREAM_FOREVER, tmp_path / "chats.db")
    assert process.stdout is not None
    for _ in range(10):
        process.stdout.readline()
    return process


def test_a_killed_copy_leaves_what_had_streamed(
    tmp_path: Path, streaming: subprocess.Popen[str]
) -> None:
    streaming.kill()
    streaming.communicate(timeout=60)
    store = ChatStore(tmp_path / "chats.db")
    question, answer = store.messages(1)
    assert question.text == "question"
    assert answer.status == "interrupted"
    assert len(answer.tokens) >= 10
    assert answer.tokens == tuple(range(len(answer.tokens)))
    assert answer.text == "từ " * len(answer.tokens)
    assert store.search("tu")[0].message_id == answer.id
    store.close()


def test_a_copy_that_starts_leaves_the_answer_of_a_running_one_alone(
    tmp_path: Path, streaming: subprocess.Popen[str]
) -> None:
    try:
        store = ChatStore(tmp_path / "chats.db")
        assert store.messages(1)[1].status == "streaming"
        store.add_message(store.create_chat("tiny").id, "user", "not kept waiting")
        store.close()
    finally:
        streaming.kill()
        streaming.communicate(timeout=60)
