import sys
from pathlib import Path

import pytest

from specchat.chats import ChatStore
from specchat.chats.earlier_answers import EarlierAnswers
from specchat.errors import SpecchatError


def test_answers_are_read_anew_each_time_so_deleted_chats_are_gone(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    store.add_message(chat.id, "assistant", "x", tokens=[1, 2], model="small")
    earlier = EarlierAnswers(lambda: store)
    assert earlier("small") == [(1, 2)]
    store.delete_chat(chat.id)
    assert earlier("small") == []


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be deleted there")
def test_nothing_is_drafted_from_a_database_that_was_deleted(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    stores: list[ChatStore] = []
    earlier = EarlierAnswers(lambda: stores[-1])
    for answer in ([1, 2], [3]):
        stores.append(store := ChatStore(file))
        chat = store.create_chat("tiny")
        store.add_message(chat.id, "assistant", "x", tokens=answer, model="small")
        assert earlier("small") == [tuple(answer)]
        for old in tmp_path.glob("chats.db*"):
            old.unlink()
        assert earlier("small") == []
        store.close()


def test_nothing_is_drafted_before_there_is_a_store() -> None:
    assert EarlierAnswers(lambda: None)("small") == []


def test_chats_that_cannot_be_read_cost_drafts_only(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> ChatStore:
        raise SpecchatError("the disk is full")

    assert EarlierAnswers(fail)("small") == []
    assert "cannot draft from earlier answers: the disk is full" in caplog.text
