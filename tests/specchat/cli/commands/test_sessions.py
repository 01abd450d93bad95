"""`specchat sessions` and `specchat locate` as child processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specchat.chats import ChatStore
from support.command_line import specchat


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with two chats; the second one has two branches and a hostile text."""
    store = ChatStore(tmp_path / "data" / "chats.db")
    first = store.create_chat("tiny")
    store.add_message(first.id, "user", "Đường phố Hà Nội")
    second = store.create_chat("tiny", title="\x1b]0;owned\x07 second")
    question = store.add_message(second.id, "user", "\x1b[31mred\x1b[0m")
    store.add_message(second.id, "assistant", "one")
    store.add_message(second.id, "assistant", "two", parent_id=question.id)
    store.close()
    return tmp_path


def output(home: Path, *arguments: str, stdin: str | bytes = b"") -> str:
    result = specchat(home, "sessions", *arguments, stdin=stdin)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


def failure(home: Path, *arguments: str, stdin: str | bytes = b"") -> tuple[int, str]:
    result = specchat(home, "sessions", *arguments, stdin=stdin)
    assert "Traceback" not in result.stderr.decode()
    return result.returncode, result.stderr.decode()


def test_the_list_is_newest_first_and_obeys_nothing(home: Path) -> None:
    lines = output(home, "list").splitlines()
    assert [line.split()[0] for line in lines] == ["2", "1"]
    assert lines[1].endswith("Đường phố Hà Nội")
    assert "\x1b" not in lines[0]
    assert "owned" in lines[0]
    chats = json.loads(output(home, "list", "--json", "--limit", "1"))
    assert [(chat["id"], chat["message_count"]) for chat in chats] == [(2, 3)]


def test_search_ignores_diacritics(home: Path) -> None:
    assert "Đường phố Hà Nội" in output(home, "search", "duong", "NOI")
    [hit] = json.loads(output(home, "search", "hà", "--json"))
    assert (hit["chat_id"], hit["message_id"]) == (1, 1)
    result = specchat(home, "sessions", "search", "absent")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"nothing found\n")


def test_show_prints_every_branch_and_obeys_nothing(home: Path) -> None:
    shown = output(home, "show", "2")
    assert "\x1b" not in shown
    assert "␛[31mred␛[0m" in shown
    assert shown.index("two") < shown.index("one")
    chat: dict[str, Any] = json.loads(output(home, "show", "2", "--json"))
    assert chat["chat"]["title"] == "\x1b]0;owned\x07 second"
    assert [m["text"] for m in chat["messages"]] == ["\x1b[31mred\x1b[0m", "one", "two"]


def test_what_is_exported_can_be_imported_elsewhere(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "chats.json"
    output(home, "export", "-o", str(file))
    elsewhere = tmp_path / "elsewhere"
    assert len(output(elsewhere, "import", str(file)).splitlines()) == 2
    assert output(elsewhere, "export") == output(elsewhere, "export", "1", "2")
    assert json.loads(output(elsewhere, "import", "-", "--json", stdin=file.read_bytes())) == [
        {"id": 3, "title": "\x1b]0;owned\x07 second"},
        {"id": 4, "title": "Đường phố Hà Nội"},
    ]


def test_markdown_is_written_as_it_is(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "chat.md"
    output(home, "export", "2", "--output", str(file))
    assert "\x1b[31mred\x1b[0m" in file.read_bytes().decode()
    exported = specchat(home, "sessions", "export", "2", "--format", "markdown")
    assert exported.stdout == file.read_bytes()


def test_removed_chats_are_gone(home: Path) -> None:
    code, errors = failure(home, "rm", "1")
    assert (code, "add --yes" in errors) == (2, True)
    state = home / "cache" / "states" / "1.state"
    state.parent.mkdir(parents=True)
    state.touch()
    output(home, "rm", "1", "--yes")
    assert not state.exists()
    assert [chat["id"] for chat in json.loads(output(home, "list", "--json"))] == [2]
    assert failure(home, "rm", "1", "--yes")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["show", "77"], 1, "there is no chat 77"),
        (["show", "99999999999999999999"], 2, "range"),
        (["export", "1", "77"], 1, "there is no chat 77"),
        (["export", "-o", "/no/such/folder/x.json"], 1, "cannot be written"),
        (["import", "/no/such/file"], 1, "cannot be read"),
        (["import", "-"], 1, "- is not an export of specchat's chats"),
    ],
)
def test_errors_are_one_line(home: Path, arguments: list[str], code: int, complaint: str) -> None:
    found, errors = failure(home, *arguments)
    assert found == code
    assert complaint in errors
    assert code == 2 or errors.count("\n") == 1


def test_without_chats_the_list_is_empty(tmp_path: Path) -> None:
    result = specchat(tmp_path, "sessions", "list")
    assert (result.returncode, result.stdout) == (0, b"")
    assert json.loads(output(tmp_path, "list", "--json")) == []


def test_locate_says_where_things_are(tmp_path: Path) -> None:
    result = specchat(tmp_path, "locate", "--json")
    assert json.loads(result.stdout)["chats"] == str(tmp_path / "data" / "chats.db")
    lines = specchat(tmp_path, "locate").stdout.decode().splitlines()
    assert f"settings  {tmp_path / 'config' / 'settings.toml'}  (not there yet)" in lines
