"""What a conversation asks of each pass, and where it ends."""

from __future__ import annotations

import pytest

from training.conversations import QUESTION_LIMIT, Conversation, Markup

MARKUP = Markup(before_question=(1, 2), before_answer=(3, 4), end=9)


def write(conversation: Conversation, drawn: list[int]) -> list[int]:
    """Run passes until it is finished; what they were asked to evaluate."""
    evaluated = []
    supply = iter(drawn)
    while not conversation.finished:
        evaluated.append(conversation.token)
        last = conversation.position == len(conversation.tokens) - 1
        conversation.advance(next(supply) if last else -1)
    return evaluated


def test_given_question_is_read_before_anything_is_drawn() -> None:
    conversation = Conversation(MARKUP, 0.0, limit=20, question=[5, 6])
    assert write(conversation, [7, 8, 9]) == [1, 2, 5, 6, 3, 4, 7, 8]
    assert conversation.tokens == [1, 2, 5, 6, 3, 4, 7, 8, 9]
    assert conversation.answer_start == 6


def test_own_question_ends_where_the_target_ends_it() -> None:
    conversation = Conversation(MARKUP, 0.0, limit=20)
    write(conversation, [5, 6, 9, 7, 9])
    assert conversation.tokens == [1, 2, 5, 6, 3, 4, 7, 9]


def test_endless_question_is_cut() -> None:
    conversation = Conversation(MARKUP, 0.0, limit=500)
    write(conversation, [5] * (QUESTION_LIMIT + 1) + [9])
    assert conversation.answer_start == 2 + QUESTION_LIMIT + 2


def test_answer_stops_at_the_limit() -> None:
    conversation = Conversation(MARKUP, 0.0, limit=8, question=[5])
    write(conversation, [7] * 10)
    assert len(conversation.tokens) == 8


def test_questions_are_drawn_freely_and_answers_at_their_own_temperature() -> None:
    conversation = Conversation(MARKUP, 0.3, limit=20)
    assert conversation.temperature == 1.0
    conversation.advance(-1)
    conversation.advance(9)
    assert conversation.temperature == 0.3


def test_question_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        Conversation(MARKUP, 0.0, limit=6, question=[5, 6])
