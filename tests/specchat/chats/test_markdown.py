"""A chat as Markdown: each message once, the branch on the screen first."""

from __future__ import annotations

import pytest

from specchat.chats import ChatStore
from specchat.chats.markdown import markdown
from specengine.core.events import Unverified


def lines(store: ChatStore, chat_id: int) -> list[str]:
    text = markdown(store.chat(chat_id), store.tree(chat_id))
    return [line for line in text.split("\n") if line][2:]  # without title and date


def test_a_chat_is_a_title_and_numbered_messages(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    store.add_message(chat.id, "user", "Đường\n\n```\ncode\n```")
    store.add_message(chat.id, "assistant", "phố")
    text = markdown(store.chat(chat.id), store.tree(chat.id))
    assert text.startswith("# Đường ``` code ```\n\n")
    assert (
        ", profile tiny\n\n## 1. You\n\nĐường\n\n```\ncode\n```\n\n## 2. Assistant\n\nphố\n" in text
    )


def test_every_branch_is_there_once_the_current_one_first(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    question = store.add_message(chat.id, "user", "question")
    first = store.add_message(chat.id, "assistant", "first")
    store.add_message(chat.id, "user", "thanks")
    second = store.add_message(chat.id, "assistant", "second", parent_id=question.id)
    store.set_head(chat.id, None)
    store.add_message(chat.id, "user", "another question")
    store.set_head(chat.id, second.id)
    assert lines(store, chat.id) == [
        *("## 1. You", "question", "## 4. Assistant", "second"),
        *("---", "*Another branch, after message 1:*"),
        *("## 2. Assistant", "first", "## 3. You", "thanks"),
        *("---", "*Another branch, from the beginning:*", "## 5. You", "another question"),
    ]
    store.set_head(chat.id, first.id)
    assert lines(store, chat.id)[:5] == [
        *("## 1. You", "question", "## 2. Assistant", "first"),
        "---",
    ]


def test_what_is_known_of_an_answer_stands_below_it(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    answer = store.add_message(chat.id, "assistant", "", status="streaming", model="smollm2")
    stats = {
        "timing": {"tokens_per_s": 12.34},
        "speculation": {"acceptance_rate": 0.756, "tokens_per_pass": None},
    }
    store.finish_message(answer.id, text="cut", tokens=[], status="length", stats=stats)
    assert lines(store, chat.id)[-1] == (
        "*(smollm2, cut off at the length limit, 12.3 tokens/s, 76% of the draft tokens accepted)*"
    )


@pytest.mark.parametrize("stats", [{}, {"timing": 3}, {"timing": {"tokens_per_s": "fast"}}])
def test_figures_of_another_kind_are_left_out(store: ChatStore, stats: dict[str, object]) -> None:
    chat = store.create_chat("tiny")
    answer = store.add_message(chat.id, "assistant", "", status="streaming")
    store.finish_message(answer.id, text="text", tokens=[], status="done", stats=stats)
    assert lines(store, chat.id) == ["## 1. Assistant", "text"]


def test_an_empty_chat_has_a_title(store: ChatStore) -> None:
    chat = store.create_chat("tiny")
    assert markdown(chat, []).startswith("# Untitled chat\n")


def test_where_an_answer_is_unverified_is_told_in_words(store: ChatStore) -> None:
    chat = store.create_chat("remote")
    mark = Unverified(1, 8, "draft-0.5b", seed=7)
    text = "It is a small\nblue bird"
    store.add_message(chat.id, "assistant", text, tokens=[1, 2], model="m", unverified=mark)
    assert lines(store, chat.id)[-1] == (
        "*(m, not verified by the target from “small blue bird” on: written by draft-0.5b)*"
    )


def test_a_thought_is_folded_above_its_answer(store: ChatStore) -> None:
    chat = store.create_chat("tiny", title="T")
    store.add_message(chat.id, "assistant", "4", reasoning="We add.")
    assert lines(store, chat.id) == [
        "## 1. Assistant",
        *("<details><summary>Thought</summary>", "We add.", "</details>"),
        "4",
    ]
