"""What both loops keep of an answer: its text, its clock, its failures and its end."""

from __future__ import annotations

import numpy as np
import pytest

from specengine.chat.answer_text import AnswerText
from specengine.chat.reasoning_format import ReasoningFormat
from specengine.core.cancel import AbortFlag
from specengine.core.draft import Draft
from specengine.core.drafter import Offer
from specengine.core.errors import BackendError, CancelledError
from specengine.core.events import Chunk, Finished, FinishReason, Unverified, Version
from specengine.core.logprobs import TokenLogprobs
from specengine.core.statistics import Statistics
from specengine.core.tokens import Tokens
from specengine.loop.record import AnswerRecord
from support.fakes import FakeVocab

PREFIX = np.array([1, 2, 3], dtype=np.int32)
VOCAB = FakeVocab(8, eog=[7])


class BrokenDrafter:
    name = "broken"
    abort: AbortFlag | None = None
    draft_s = 0.0
    notice: str | None = "the file has no room left"

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure or ZeroDivisionError("of its own")

    def offer(self, prefix: Tokens) -> Offer:
        return Offer("broken", 4, 0.5)

    def propose(self, prefix: Tokens, k: int) -> Draft:
        raise self.failure


def record(**options: object) -> AnswerRecord:
    return AnswerRecord(VOCAB, [], Statistics(), **options)  # type: ignore[arg-type]


def finished(
    of: AnswerRecord, reason: FinishReason = "length", plain_pass_s: float | None = None
) -> Finished:
    of.reason = of.reason or reason
    *_, end = of.finish("greedy", plain_pass_s)
    assert isinstance(end, Finished)
    return end


@pytest.mark.parametrize(
    ("options", "kept", "reason"),
    [
        ({}, (0, 1, 2, 7, 3), None),
        ({"eog": VOCAB.eog}, (0, 1, 2), "stop"),
        ({"eog": VOCAB.eog, "limit": 3}, (0, 1, 2), "length"),
        ({"limit": 2}, (0, 1), "length"),
        ({"limit": 9}, (0, 1, 2, 7, 3), None),
    ],
)
def test_tokens_are_kept_up_to_an_end_token_or_the_limit(
    options: dict[str, object], kept: tuple[int, ...], reason: FinishReason | None
) -> None:
    answer, heard = record(), list[int]()
    chunk = answer.commit((0, 1, 2, 7, 3), follow=heard.append, **options)  # type: ignore[arg-type]
    assert chunk is not None
    assert (chunk.tokens, tuple(heard), answer.reason) == (kept, kept, reason)
    assert chunk.stats.completion_tokens == len(kept)


def test_an_end_token_alone_adds_nothing() -> None:
    answer = record()
    assert answer.commit((7,), eog=VOCAB.eog) is None
    assert (answer.reason, finished(answer).tokens) == ("stop", ())


def test_text_tokens_and_logprobs_end_before_a_stop_string() -> None:
    answer = record(stop=("cd",))
    logprobs = [TokenLogprobs(token, -1.0, ()) for token in range(5)]
    chunk = answer.commit(range(5), logprobs)
    assert chunk is not None
    assert (chunk.text, chunk.tokens, answer.reason) == ("ab", (0, 1, 2, 3), "stop")
    end = finished(answer)
    assert (end.text, end.tokens, end.logprobs) == ("ab", (0, 1), tuple(logprobs[:2]))
    assert end.stats.completion_tokens == 2


def test_what_was_held_back_for_a_stop_string_is_shown_at_the_end() -> None:
    answer = record(stop=("cd",))
    answer.commit((0, 1, 2))
    answer.reason = "length"
    rest, end = answer.finish("greedy", None)
    assert isinstance(rest, Chunk)
    assert isinstance(end, Finished)
    assert (rest.text, rest.tokens, end.text) == ("c", (), "abc")


THINKS = ReasoningFormat("tags", "<think>", "</think>")
THOUGHTFUL = FakeVocab(8, eog=[7], pieces={0: b"<think>", 1: b"hm ", 2: b"</think>", 3: b"4"})


def test_what_is_thought_comes_apart_from_the_text_and_is_counted() -> None:
    answer = AnswerRecord(THOUGHTFUL, [], Statistics(), reasoning=THINKS)
    thought, said = answer.commit((0, 1)), answer.commit((1, 2, 3, 3))
    assert thought is not None
    assert said is not None
    assert (thought.text, thought.reasoning, thought.stats.reasoning_tokens) == ("", "hm", 2)
    assert (said.text, said.reasoning, said.stats.reasoning_tokens) == ("44", " hm", 4)
    assert thought.stats.answer_s is None
    assert said.stats.answer_s is not None
    end = finished(answer)
    assert (end.text, end.reasoning, end.answer_at) == ("44", "hm hm", 4)
    assert end.tokens == (0, 1, 1, 2, 3, 3)


def test_an_answer_that_ended_within_its_thought_says_so() -> None:
    answer = AnswerRecord(THOUGHTFUL, [], Statistics(), reasoning=THINKS)
    answer.commit((0, 1, 1), limit=3)
    end = finished(answer)
    assert (end.text, end.reasoning, end.answer_at, end.stats.answer_s) == ("", "hm hm", 3, None)
    assert end.notices == ("all 3 tokens went into thinking: raise --max-tokens",)


def test_a_tool_call_is_said_and_left_out() -> None:
    pieces = {0: b"<|channel|>commentary to=f.g<|message|>", 1: b"{}"}
    harmony = ReasoningFormat("harmony", "<|channel|>analysis<|message|>", "")
    vocab = FakeVocab(8, eog=[7], pieces={**pieces, 2: b"<|start|>assistant"})
    answer = AnswerRecord(vocab, [], Statistics(), reasoning=harmony, prompt=[2])
    answer.commit((0, 1, 7), eog=vocab.eog)
    end = finished(answer)
    assert (end.text, end.reasoning) == ("", "")
    assert end.notices == ("the model called the tool f.g, which no answer here can do: left out",)


def test_an_answer_may_be_more_than_the_target_has_said() -> None:
    answer = record()
    answer.commit((0, 1))
    shown = AnswerText(VOCAB)
    shown.add(0)
    shown.add(1)
    chunk = answer.commit((2, 3, 4), text=shown, limit=4)
    assert chunk is not None
    assert (chunk.tokens, chunk.stats.completion_tokens, answer.reason) == ((2, 3), 4, "length")
    mark, replaced = Unverified(2, 2, "draft", 5), Version("abf", (0, 1, 5), None)
    (end,) = answer.finish("coupled", None, text=shown, unverified=mark, replaced=[replaced])
    assert isinstance(end, Finished)
    assert (end.text, end.tokens, end.rule) == ("abcd", (0, 1, 2, 3), "coupled")
    assert (end.unverified, end.replaced) == (mark, (replaced,))


@pytest.mark.parametrize(
    ("failure", "reason", "error"),
    [
        (CancelledError("cancelled"), "cancelled", None),
        (BackendError("the pass broke"), "error", "the pass broke"),
    ],
)
def test_what_ends_an_answer_keeps_what_came(
    failure: Exception, reason: FinishReason, error: str | None
) -> None:
    answer = record()
    with answer.ending():
        answer.commit((0, 1))
        raise failure
    end = finished(answer)
    assert (end.reason, end.error, end.text) == (reason, error, "ab")


def test_a_mistake_of_the_program_is_passed_on() -> None:
    with pytest.raises(RuntimeError, match="odd"), record().ending():
        raise RuntimeError("odd")


def test_a_person_who_has_cancelled_is_heeded() -> None:
    abort = AbortFlag()
    answer = record(abort=abort)
    answer.check_cancelled()
    abort.set()
    with pytest.raises(CancelledError):
        answer.check_cancelled()


def test_a_person_who_cancels_while_a_draft_is_made_ends_the_answer() -> None:
    abort = AbortFlag()
    drafter, answer = BrokenDrafter(CancelledError("cancelled")), record(abort=abort)
    abort.set()
    with answer.ending():
        answer.guard.propose(drafter, drafter.offer(PREFIX), PREFIX, 2)
    assert (answer.reason, answer.notices) == ("cancelled", [])


def test_what_drafters_say_and_where_they_fail_is_told_once_and_the_answer_goes_on() -> None:
    drafter, answer = BrokenDrafter(), record()
    with answer.ending():
        for _ in range(3):
            offer = answer.guard.offer(drafter, PREFIX) or drafter.offer(PREFIX)
            assert answer.guard.propose(drafter, offer, PREFIX, 2) is None
    assert answer.reason is None
    assert finished(answer).notices == (
        "the file has no room left",
        "the drafter broken failed (of its own): continuing without it",
    )


def test_times_begin_with_the_first_token() -> None:
    drafter, target_s = BrokenDrafter(), 2.0
    drafter.draft_s = 3.0
    answer = AnswerRecord(VOCAB, [drafter], Statistics(), target_s=lambda: target_s)
    end = finished(answer)
    assert (end.stats.ttft_s, end.stats.draft_s, end.stats.verify_s) == (None, 0.0, 0.0)
    first = answer.commit((0,))
    assert first is not None
    assert first.stats.ttft_s == first.stats.prompt_s
    drafter.draft_s, target_s = 3.5, 2.25
    second = answer.commit((1,))
    assert second is not None
    assert second.stats.ttft_s == first.stats.ttft_s
    assert (second.stats.draft_s, second.stats.verify_s) == (0.5, 0.25)


def test_the_time_of_a_target_that_tells_it_itself_is_left_alone() -> None:
    answer = record()
    answer.stats.verify_s = None
    answer.commit((0,))
    assert finished(answer).stats.verify_s is None


@pytest.mark.parametrize(("plain_pass_s", "expected"), [(0.25, 4.0), (None, None), (0.0, None)])
def test_the_target_alone_is_as_fast_as_its_plain_passes(
    plain_pass_s: float | None, expected: float | None
) -> None:
    answer = record()
    answer.stats.count_round(0, 0, "lookup", asked=2)  # a draft that came to nothing is one, too
    answer.commit((0, 1, 2))
    assert finished(answer, plain_pass_s=plain_pass_s).stats.plain_tokens_per_s == expected


def test_where_nobody_drafted_the_answer_was_the_target_alone() -> None:
    answer = record()
    answer.commit((0, 1, 2))
    stats = finished(answer, plain_pass_s=0.25).stats
    assert stats.plain_tokens_per_s == stats.tokens_per_s != 4.0
