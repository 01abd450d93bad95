"""Search: without diacritics or case, in every script, and whatever the query holds."""

from __future__ import annotations

import pytest

from specchat.chats import ChatStore
from specchat.chats.search import excerpt


def found(store: ChatStore, text: str, query: str) -> bool:
    chat = store.create_chat("tiny", title="untitled")
    store.add_message(chat.id, "user", text)
    return any(hit.chat_id == chat.id for hit in store.search(query))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Đường phố Hà Nội", "duong pho"),
        ("Đường phố Hà Nội", "ĐƯỜNG"),
        ("duong khong dau", "đường"),
        ("tie\u0302\u0301ng Vie\u0323\u0302t", "tiếng việt"),
        ("tiếng Việt", "tie\u0302\u0301ng"),
        ("Straße in Łódź", "strasse lodz"),
        ("naïve café", "cafe nai"),
        ("東京タワーは高い", "タワー"),
        ("我在北京学习", "北京"),
        ("ภาษาไทยง่าย", "ไทย"),
        ("안녕하세요 여러분", "여러"),
        ("हिन्दी भाषा", "हिन्दी"),
        ("see foo_bar-baz.py", "foo_bar-baz"),
        ("words in any order", "order words"),
    ],
)
def test_text_is_found(store: ChatStore, text: str, query: str) -> None:
    assert found(store, text, query)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Đường phố", "duong nha"),
        ("我在北京学习", "京北"),
        ("unrelated", "rel"),
        ("anything", "   "),
        ("anything at all ?", "?"),
    ],
)
def test_other_text_is_not_found(store: ChatStore, text: str, query: str) -> None:
    assert not found(store, text, query)


@pytest.mark.parametrize(
    "query", ['"', 'a"b', "NEAR(", "a AND", "text:", "a*", "(", "^a", "-", "'", "\0", "a\0b", "{a}"]
)
def test_no_query_is_an_error(store: ChatStore, query: str) -> None:
    store.add_message(store.create_chat("tiny").id, "user", "something else")
    assert store.search(query) == []


def test_words_of_the_query_are_never_operators(store: ChatStore) -> None:
    assert found(store, "cats and dogs", "cats AND dogs")
    assert not found(store, "cats alone", "cats OR dogs")


def test_an_answer_is_found_once_it_has_ended(store: ChatStore) -> None:
    chat = store.create_chat("tiny", title="t")
    answer = store.add_message(chat.id, "assistant", "", status="streaming")
    store.append_to_message(answer.id, "a giraffe", [])
    store.finish_message(answer.id, text="a zebra", tokens=[], status="done", stats=None)
    assert store.search("giraffe") == []
    [hit] = store.search("zebra")
    assert (hit.chat_id, hit.title, hit.message_id, hit.excerpt) == (
        chat.id,
        "t",
        answer.id,
        "a zebra",
    )


def test_a_chat_is_found_by_its_title_where_no_message_matches(store: ChatStore) -> None:
    chat = store.create_chat("tiny", title="Thuế năm nay")
    store.add_message(chat.id, "user", "hello")
    [hit] = store.search("thue")
    assert (hit.chat_id, hit.message_id, hit.excerpt) == (chat.id, None, "Thuế năm nay")
    store.add_message(chat.id, "user", "thuế")
    assert [hit.message_id is None for hit in store.search("thue")] == [False]


def test_the_excerpt_shows_the_found_word_as_it_was_written() -> None:
    text = "mở đầu\n" * 50 + "rồi Đường\tphố đông " + "và kết thúc " * 50
    shown = excerpt(text, ["duong"])
    assert "rồi Đường phố đông" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) <= 122
    assert excerpt("short", ["nothing"]) == "short"
