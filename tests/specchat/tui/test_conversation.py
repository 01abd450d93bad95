from specchat.tui.conversation import Conversation
from specengine.chat.chat_template import Turn


def test_an_answer_without_a_word_is_not_sent() -> None:
    conversation = Conversation()
    conversation.ask("first")
    conversation.answer("m")  # stopped before its first word
    conversation.ask("second")
    assert conversation.turns("m", None) == [Turn("user", "first"), Turn("user", "second")]


def test_only_the_model_itself_gets_its_token_ids_back() -> None:
    conversation = Conversation()
    conversation.ask("question")
    answer = conversation.answer("m")
    answer.text, answer.tokens = "answer", [7, 8]
    assert conversation.turns("m", "system") == [
        Turn("system", "system"),
        Turn("user", "question"),
        Turn("assistant", "answer", (7, 8)),
    ]
    assert conversation.turns("other", None)[1] == Turn("assistant", "answer")


def test_cutting_takes_off_what_follows_too() -> None:
    conversation = Conversation()
    first, answer, second = conversation.ask("1"), conversation.answer("m"), conversation.ask("2")
    assert conversation.cut(answer) == [answer, second]
    assert conversation.entries == [first]
    assert conversation.last("assistant") is None
