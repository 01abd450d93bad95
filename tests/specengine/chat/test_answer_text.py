import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specengine.chat.answer_text import AnswerText
from specengine.chat.reasoning_format import ReasoningFormat
from support.fakes import FakeVocab


def answer(
    pieces: list[bytes], stop: list[str], *, cut: bool = False
) -> tuple[AnswerText, list[str]]:
    text = AnswerText(FakeVocab(len(pieces), pieces=dict(enumerate(pieces))), stop)
    shown = [text.add(i).text for i in range(len(pieces))]
    return text, [*shown, text.finish(cut=cut).text]


@given(st.text(max_size=20), st.data())
def test_case_16_a_text_cut_at_any_byte_comes_out_whole(text: str, data: st.DataObject) -> None:
    raw = text.encode("utf-8", "ignore")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=5)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    result, shown = answer(pieces, [])
    assert result.text == "".join(shown) == raw.decode()
    assert "\ufffd" not in result.text or "\ufffd" in text


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_case_16_vietnamese_in_both_forms_byte_by_byte(form: Literal["NFC", "NFD"]) -> None:
    raw = unicodedata.normalize(form, "tiếng Việt 🙂").encode()
    result, shown = answer([bytes([b]) for b in raw], [])
    assert result.text.encode() == raw
    assert "\ufffd" not in "".join(shown)


def test_case_16_an_answer_that_really_ends_broken_says_so() -> None:
    result, _ = answer([b"ok", "ế".encode()[:2]], [])
    assert result.text == "ok\ufffd"


@given(st.text(min_size=1, max_size=6), st.data())
def test_an_answer_that_is_cut_inside_a_character_ends_before_it_and_keeps_its_ids(
    text: str, data: st.DataObject
) -> None:
    raw = text.encode("utf-8", "ignore")
    length = data.draw(st.integers(0, len(raw)))
    result, shown = answer([bytes([b]) for b in raw[:length]], [], cut=True)
    assert result.text == "".join(shown) == raw[:length].decode("utf-8", "ignore")
    assert result.tokens == list(range(length))


@pytest.mark.parametrize("stop", [[], ["</stop>"]])
def test_case_16_a_tag_in_two_tokens_is_text(stop: list[str]) -> None:
    result, shown = answer([b"</thi", b"nk>OK"], stop)
    assert result.text == "".join(shown) == "</think>OK"


def test_case_16_what_only_looks_like_a_stop_string_waits_for_one_token() -> None:
    result, shown = answer([b"a <", b" b", b"."], ["</stop>"])
    assert shown[:2] == ["a ", "< b"]
    assert result.text == "a < b."


def test_text_and_ids_end_at_one_place() -> None:
    result, shown = answer([b"Hello", b" wor", b"ld", b"!"], ["world"])
    assert result.stopped
    assert result.text == "".join(shown) == "Hello "
    assert result.tokens == [0]


def test_a_token_that_ends_exactly_at_the_cut_is_kept() -> None:
    result, _ = answer([b"a", b"b", b"END"], ["END"])
    assert result.tokens == [0, 1]
    assert result.committed == 3


THINKS = ReasoningFormat("tags", "<think>", "</think>")
THOUGHTFUL = [b"<think>\n", b"2 STOP\n", b"2</thi", b"nk>", b"\n\n", b"4 ", b"then", b"STOP", b"!"]


def test_a_stop_string_in_a_thought_ends_nothing_and_one_in_the_answer_cuts_its_ids() -> None:
    text = AnswerText(FakeVocab(9, pieces=dict(enumerate(THOUGHTFUL))), ["STOP"], THINKS)
    shown = []
    for token in range(9):
        shown.append(text.add(token))
        if text.stopped:
            break
    assert ("".join(s.text for s in shown), "".join(s.reasoning for s in shown)) == (
        *("4 then", "2 STOP\n2"),
    )
    assert (text.text, text.reasoning) == ("4 then", "2 STOP\n2")
    assert (text.tokens, text.answer_at) == ([0, 1, 2, 3, 4, 5, 6], 5)


@pytest.mark.parametrize("n", range(1, 6))
def test_a_thought_that_is_cut_stays_a_thought(n: int) -> None:
    text = AnswerText(FakeVocab(9, pieces=dict(enumerate(THOUGHTFUL))), ["STOP"], THINKS)
    for token in range(n):
        text.add(token)
    text.finish(cut=True)
    assert (text.text, text.tokens, text.answer_at) == ("", list(range(n)), n)
    assert "think" not in text.reasoning or n == 3  # "</thi" is no mark yet


def test_without_a_format_or_a_thought_the_answer_begins_at_once() -> None:
    vocab = FakeVocab(9, pieces=dict(enumerate(THOUGHTFUL)))
    raw, plain = AnswerText(vocab), AnswerText(vocab, (), THINKS)
    for token in (0, 1):
        raw.add(token)
    plain.add(5)
    assert (raw.text, raw.answer_at, raw.reasoning) == ("<think>\n2 STOP\n", 0, "")
    assert (plain.text, plain.answer_at, plain.reasoning) == ("4 ", 0, "")
