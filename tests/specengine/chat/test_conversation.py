"""Which turns leave when a conversation outgrows the context."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specengine.chat.chat_template import CHATML, Turn, encode_chat
from specengine.chat.conversation import alternating, fit_turns, stable_beginning
from specengine.core.errors import ContextFullError
from specengine.core.vocab import Vocab
from specengine.llama.model import LlamaModel
from support.piece_vocab import PieceVocab

SYSTEM = Turn("system", "s" * 5)
CHAT = [
    SYSTEM,
    Turn("user", "a" * 10),
    Turn("assistant", "b" * 10),
    Turn("user", "c" * 10),
    Turn("assistant", "d" * 10),
    Turn("user", "e" * 10),
]


def size(turns: Sequence[Turn]) -> int:
    return sum(len(turn.text) for turn in turns)


@pytest.mark.parametrize(
    ("budget", "kept", "dropped"),
    [
        (55, "sabcde", 0),
        (54, "se", 4),  # half of 54 is more than the first exchange
        (37, "scde", 2),
        (36, "se", 4),
        (15, "se", 4),
    ],
)
def test_the_oldest_exchanges_leave_and_the_system_stays(
    budget: int, kept: str, dropped: int
) -> None:
    turns, count = fit_turns(CHAT, size, budget)
    assert "".join(turn.text[0] for turn in turns) == kept
    assert count == dropped


def test_a_last_message_that_does_not_fit_is_told_with_both_sizes() -> None:
    with pytest.raises(
        ContextFullError, match=r"needs 15 tokens .* room for 14.* if the model takes more"
    ):
        fit_turns(CHAT, size, 14)


def test_a_lone_message_that_does_not_fit_is_told() -> None:
    with pytest.raises(ContextFullError, match="needs 10 tokens"):
        fit_turns([Turn("user", "x" * 10)], size, 9)


def test_an_answer_to_continue_stays_with_its_question() -> None:
    chat = [*CHAT, Turn("assistant", "f" * 10)]
    turns, count = fit_turns(chat, size, 30)
    assert ("".join(turn.text[0] for turn in turns), count) == ("sef", 4)


def test_a_greeting_before_the_first_question_leaves_first() -> None:
    chat = [Turn("assistant", "g" * 30), *CHAT]
    turns, count = fit_turns(chat, size, 60)
    assert (turns, count) == (CHAT, 1)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=9), st.integers(20, 99))
def test_what_is_left_fits_and_is_about_half_at_least(
    lengths: list[tuple[int, int]], budget: int
) -> None:
    chat = [SYSTEM]
    for question, answer in lengths:
        chat += [Turn("user", "q" * question), Turn("assistant", "a" * answer)]
    chat.append(Turn("user", "last"))
    turns, count = fit_turns(chat, size, budget)
    assert turns == [SYSTEM, *chat[1 + count :]]
    assert size(turns) <= budget
    assert (count == 0) == (size(chat) <= budget)
    assert count == 0 or size([*chat[count - 1 : count + 1], *turns]) > budget - budget // 2


def test_where_a_long_last_message_needs_more_than_half_no_more_leaves_than_must() -> None:
    chat = [*CHAT[:-1], Turn("user", "e" * 55)]
    turns, count = fit_turns(chat, size, 90)
    assert ("".join(turn.text[0] for turn in turns), count) == ("scde", 2)


def test_a_growing_chat_seldom_begins_elsewhere() -> None:
    """Each other beginning is a whole prompt to evaluate."""
    chat: list[Turn] = []
    beginnings = []
    for i in range(60):
        chat.append(Turn("user", f"{i:010}"))
        turns, _ = fit_turns(chat, size, 200)
        beginnings.append(turns[0].text)
        chat.append(Turn("assistant", "a" * 10))
    changes = sum(a != b for a, b in itertools.pairwise(beginnings))
    assert changes == 10  # of the 50 questions after the context is full, one in five


def test_questions_that_were_never_answered_become_one() -> None:
    turns = [SYSTEM, Turn("user", "first"), Turn("user", "second"), Turn("assistant", "ok", (7,))]
    one = Turn("user", "first\n\nsecond")
    assert alternating(turns) == [SYSTEM, one, turns[-1]]


@pytest.fixture(scope="module")
def vocab(tiny_model: Path) -> Iterator[Vocab]:
    with LlamaModel(tiny_model, vocab_only=True) as model:
        yield model.vocab


@pytest.mark.parametrize(("typed", "goes_on"), [("x ab", "c"), ("x abc", "d")])
def test_tokens_that_the_next_letters_may_change_are_no_part_of_the_stable_beginning(
    typed: str, goes_on: str
) -> None:
    letters = PieceVocab([b"x", b" ", b"a", b"1", b"c", b"d", b"ab", b"abcd", b"\n"])
    if goes_on == "c":
        letters = PieceVocab([b"x", b" ", b"a", b"1", b"ab", b"abc", b"\n"])

    def encode(turns: Sequence[Turn]) -> list[int]:
        return letters.tokenize("".join(turn.text + "\n" for turn in turns))

    chat = [Turn("user", "x"), Turn("assistant", "xx")]
    beginning = stable_beginning(chat, typed, encode)
    asked = encode([*chat, Turn("user", typed + goes_on)])
    assert asked[: len(beginning)] == beginning
    assert len(beginning) >= len(encode(chat))


@pytest.mark.parametrize("goes_on", ["", " one", "d", "!\n\nAnd 2+2?", "17"])
@pytest.mark.parametrize("typed", ["", "Wha", "What is the name of the", "Line\n", "It is 20"])
def test_what_is_typed_on_keeps_the_stable_beginning(
    vocab: Vocab, typed: str, goes_on: str
) -> None:
    def encode(turns: Sequence[Turn]) -> list[int]:
        return encode_chat(CHATML, turns, vocab)

    beginning = stable_beginning([SYSTEM, *CHAT[1:3]], typed, encode)
    asked = encode([SYSTEM, *CHAT[1:3], Turn("user", typed + goes_on)])
    assert asked[: len(beginning)] == beginning
    before = encode([SYSTEM, *CHAT[1:3], Turn("user", "")])[:-8]
    assert beginning[: len(before)] == before
    assert len(beginning) >= len(before) + len(vocab.tokenize(typed)) - 3
