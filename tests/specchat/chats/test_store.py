"""The tree of messages: branches, streaming, and text and ids that come back whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.chats import ChatStore
from specchat.errors import SpecchatError
from specengine.core.events import Unverified


def texts(store: ChatStore, chat_id: int) -> list[str]:
    return [message.text for message in store.messages(chat_id)]


def test_messages_are_a_chain_from_the_first_to_the_head(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    question = store.add_message(chat.id, "user", "one")
    answer = store.add_message(chat.id, "assistant", "two", model="smollm2")
    assert [(m.id, m.parent_id, m.role, m.text) for m in store.messages(chat.id)] == [
        (question.id, None, "user", "one"),
        (answer.id, question.id, "assistant", "two"),
    ]
    assert store.messages(chat.id)[1] == answer
    assert store.chat(chat.id).head_id == answer.id


def test_regenerating_starts_a_branch_and_keeps_the_other(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    question = store.add_message(chat.id, "user", "question")
    first = store.add_message(chat.id, "assistant", "first answer")
    store.add_message(chat.id, "user", "thanks")
    store.add_message(chat.id, "assistant", "second answer", parent_id=question.id)
    assert texts(store, chat.id) == ["question", "second answer"]

    store.set_head(chat.id, first.id)
    assert texts(store, chat.id) == ["question", "first answer"]
    assert [m.text for m in store.tree(chat.id)] == [
        "question",
        "first answer",
        "thanks",
        "second answer",
    ]


def test_without_a_head_the_next_message_is_another_root(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    store.add_message(chat.id, "user", "question")
    store.set_head(chat.id, None)
    edited = store.add_message(chat.id, "user", "better question")
    assert edited.parent_id is None
    assert texts(store, chat.id) == ["better question"]


def test_a_parent_in_another_chat_is_refused(store: ChatStore) -> None:
    elsewhere = store.add_message(store.create_chat("tiny").id, "user", "elsewhere")
    chat = store.create_chat("tiny")
    with pytest.raises(SpecchatError, match=f"no message {elsewhere.id} in chat {chat.id}"):
        store.add_message(chat.id, "assistant", "answer", parent_id=elsewhere.id)


def test_a_streamed_answer_grows_and_is_replaced_by_its_end(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    answer = store.add_message(chat.id, "assistant", "", status="streaming")
    store.append_to_message(answer.id, "Hel", [0, 70_000])
    store.append_to_message(answer.id, "lo", [256, 0])
    [growing] = store.messages(chat.id)
    assert (growing.text, growing.tokens, growing.status) == (
        "Hello",
        (0, 70_000, 256, 0),
        "streaming",
    )

    stats = {"speculation": {"accepted": 3, "speedup": None}}
    store.finish_message(answer.id, text="Hell", tokens=[0, 70_000], status="stopped", stats=stats)
    [ended] = store.messages(chat.id)
    assert (ended.text, ended.tokens, ended.status) == ("Hell", (0, 70_000), "stopped")
    assert ended.stats == stats


@pytest.mark.parametrize(
    "text",
    [
        "Tiếng Việt",
        "e\u0302\u0301 stays decomposed",
        "👩‍👩‍👧 東京 ไทย العربية",
        "NUL \0 inside",
        "\x1b[31mred\x1b[0m\r\n\tx\u2028y",
        "",
    ],
)
def test_text_comes_back_as_it_went_in(store: ChatStore, text: str) -> None:
    chat = store.create_chat("tiny", title="title")
    message = store.add_message(chat.id, "assistant", "", status="streaming")
    store.append_to_message(message.id, text, [])
    store.append_to_message(message.id, text, [])
    assert texts(store, chat.id) == [text + text]
    store.finish_message(message.id, text=text, tokens=[], status="done", stats=None)
    assert texts(store, chat.id) == [text]


def test_lone_surrogates_become_replacement_characters(store: ChatStore) -> None:
    chat = store.create_chat("tiny\udc80")
    store.add_message(chat.id, "user", "bad \ud800 half, whole \ud83d\ude00", model="\udfff")
    [message] = store.messages(chat.id)
    assert (message.text, message.model) == ("bad \ufffd half, whole 😀", "\ufffd")
    assert store.search("\ud800") == []


def test_chats_come_newest_first_with_counts(store: ChatStore) -> None:
    older, newer = store.create_chat("tiny", title="older"), store.create_chat("laptop")
    assert [chat.id for chat in store.chats()] == [newer.id, older.id]
    store.add_message(older.id, "user", "again")
    assert [(c.id, c.title, c.profile, c.message_count) for c in store.chats()] == [
        (older.id, "older", "tiny", 1),
        (newer.id, "", "laptop", 0),
    ]
    assert [chat.id for chat in store.chats(limit=1)] == [older.id]


def test_the_first_question_names_a_chat_and_no_later_one(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    store.add_message(chat.id, "system", "Be brief.")
    store.add_message(chat.id, "user", "Why  is\nthe sky blue? " + "Tell me more. " * 10)
    title = store.chat(chat.id).title
    assert title.startswith("Why is the sky blue? Tell me")
    assert len(title) <= 60
    store.add_message(chat.id, "user", "And the sea?")
    assert store.chat(chat.id).title == title


def test_a_deleted_chat_is_gone_from_everywhere(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    store.add_message(chat.id, "user", "zebra")
    answer = store.add_message(chat.id, "assistant", "", status="streaming")
    store.delete_chat(chat.id)
    assert store.chats() == []
    with store._database.reading() as db:
        assert db.execute("SELECT count(*) FROM messages_index").fetchone()[0] == 0
    for call in (
        lambda: store.messages(chat.id),
        lambda: store.append_to_message(answer.id, "late", [1]),
        lambda: store.finish_message(answer.id, text="", tokens=[], status="done", stats=None),
        lambda: store.delete_chat(chat.id),
    ):
        with pytest.raises(SpecchatError, match=r"no chat|no longer exists"):
            call()


def test_the_newest_answers_of_a_model_are_found_in_all_chats(store: ChatStore) -> None:
    chats = [store.create_chat("tiny") for _ in range(2)]

    def answer(chat: int, model: str, tokens: list[int]) -> None:
        store.add_message(chats[chat].id, "assistant", "x", tokens=tokens, model=model)

    answer(0, "small", [1, 2, 3])
    answer(1, "small", [4, 5])
    answer(1, "other", [6])
    answer(0, "small", [])
    answer(0, "small", [7])
    assert store.answers("small", max_tokens=6) == [(1, 2, 3), (4, 5), (7,)]
    assert store.answers("small", max_tokens=5) == [(4, 5), (7,)]
    store.delete_chat(chats[1].id)
    assert store.answers("small", max_tokens=6) == [(1, 2, 3), (7,)]


def test_whoever_keeps_more_of_a_chat_hears_that_it_was_deleted(tmp_path: Path) -> None:
    gone: list[int] = []
    store = ChatStore(tmp_path / "other.db", on_delete=gone.append)
    chat = store.create_chat("tiny")
    store.delete_chat(chat.id)
    with pytest.raises(SpecchatError):
        store.delete_chat(chat.id + 1)
    assert gone == [chat.id]
    store.close()


def test_the_id_of_a_deleted_message_is_not_given_out_again(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    deleted = store.add_message(chat.id, "assistant", "", status="streaming")
    store.delete_chat(chat.id)
    fresh = store.create_chat("tiny")
    message = store.add_message(fresh.id, "user", "mine")
    assert fresh.id != chat.id
    assert message.id != deleted.id


def test_what_is_unverified_is_known_while_it_streams_and_after(store: ChatStore) -> None:
    mark = Unverified(1, 3, "draft", seed=2**64 - 1)
    chat = store.create_chat("remote")
    answer = store.add_message(chat.id, "assistant", "", status="streaming", model="m")
    store.append_to_message(answer.id, "The", [1])
    assert store.messages(chat.id)[0].unverified is None
    store.append_to_message(answer.id, " fox", [2], mark)
    assert store.messages(chat.id)[0].unverified == mark
    store.finish_message(
        answer.id, text="The fox", tokens=[1, 2], status="done", stats=None, unverified=mark
    )
    assert store.messages(chat.id)[0].unverified == mark
    store.finish_message(answer.id, text="The cat", tokens=[1, 3], status="done", stats=None)
    (message,) = store.messages(chat.id)
    assert (message.text, message.tokens, message.unverified) == ("The cat", (1, 3), None)
    assert [hit.message_id for hit in store.search("cat")] == [answer.id]
    assert store.search("fox") == []


def test_another_version_of_an_answer_stands_beside_it(store: ChatStore) -> None:
    chat = store.create_chat("remote")
    question = store.add_message(chat.id, "user", "question")
    answer = store.add_message(chat.id, "assistant", "answer", parent_id=question.id)
    other = store.add_message(chat.id, "assistant", "other", parent_id=question.id, is_head=False)
    assert texts(store, chat.id) == ["question", "answer"]
    both = (answer.id, other.id)
    assert store.versions(chat.id) == {answer.id: both, other.id: both}


def test_going_to_a_version_goes_to_the_newest_of_what_follows_it(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    first = store.add_message(chat.id, "user", "first")
    store.add_message(chat.id, "assistant", "one")
    again = store.add_message(chat.id, "assistant", "two", parent_id=first.id)
    store.add_message(chat.id, "user", "more")
    store.set_head(chat.id, None)
    edited = store.add_message(chat.id, "user", "edited")
    store.add_message(chat.id, "assistant", "three")
    store.go_to(chat.id, first.id)
    assert texts(store, chat.id) == ["first", "two", "more"]
    store.go_to(chat.id, edited.id)
    assert texts(store, chat.id) == ["edited", "three"]
    assert store.versions(chat.id)[edited.id] == (first.id, edited.id)
    assert store.versions(chat.id)[again.id][1] == again.id
    other = store.create_chat("tiny")
    with pytest.raises(SpecchatError):
        store.go_to(other.id, first.id)


def test_a_thought_streams_in_beside_its_answer_and_comes_back_whole(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    answer = store.add_message(chat.id, "assistant", "", status="streaming", model="m")
    store.append_to_message(answer.id, "", [1, 2], reasoning="We ", answer_at=2)
    store.append_to_message(answer.id, "4", [3, 4], reasoning="add. \ud800", answer_at=3)
    (message,) = store.messages(chat.id)
    assert (message.text, message.reasoning, message.answer_at) == ("4", "We add. \ufffd", 3)
    store.finish_message(
        answer.id,
        text="4!",
        tokens=[1, 2, 3, 4],
        status="done",
        stats=None,
        reasoning="We add.",
        answer_at=3,
    )
    (message,) = store.messages(chat.id)
    assert (message.text, message.reasoning, message.answer_at) == ("4!", "We add.", 3)
    assert [hit.message_id for hit in store.search("4!")] == [answer.id]
    assert store.search("add") == []
