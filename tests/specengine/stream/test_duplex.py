"""A target that goes on by itself, and a drafter that runs ahead of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from specengine.core.cancel import AbortFlag
from specengine.core.draft import Draft
from specengine.core.events import Chunk, Finished
from specengine.core.tokens import Tokens
from specengine.drafters.model import ModelDrafter
from specengine.stream.committed import Committed, Ended, EndReason
from specengine.stream.duplex import answer_with_hints
from specengine.stream.target_stream import Notice, Opened, StreamEvent
from specengine.stream.transcript import Transcript
from support.fake_stream import MODEL, SAMPLING, FakeStream, V, drafter, plain
from support.fakes import FakeVocab, Model, markov, scripted
from support.rig import Rig


def answer(
    stream: FakeStream, prompt: list[int], drafters: list[ModelDrafter], **options: object
) -> Finished:
    events = answer_with_hints(stream, FakeVocab(V), drafters, prompt, **options)  # type: ignore[arg-type]
    *chunks, finished = events
    assert isinstance(finished, Finished)
    texts = [chunk.text for chunk in chunks if isinstance(chunk, Chunk)]
    assert "".join(texts) == finished.text
    assert stream.closed
    return finished


@pytest.mark.parametrize("loss", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("draft", [MODEL, markov(V, seed=9), None])
def test_no_drafter_and_no_loss_changes_the_text(draft: Model | None, loss: float) -> None:
    expected = plain(MODEL, [1, 2, 3], 40)
    stream = FakeStream(MODEL, [1, 2, 3], 40, loss=loss)
    finished = answer(stream, [1, 2, 3], [] if draft is None else [drafter(draft)])
    assert finished.tokens == expected.tokens
    assert finished.text == expected.text
    assert finished.reason == "length"


def test_a_good_drafter_saves_passes_and_is_counted() -> None:
    finished = answer(FakeStream(MODEL, [1, 2, 3], 40), [1, 2, 3], [drafter(MODEL)])
    stats = finished.stats
    assert stats.drafted > 10
    assert stats.accepted == stats.drafted
    assert stats.accepted + stats.corrected + stats.bonus == 40
    assert stats.target_passes == 39 - stats.accepted


def test_passes_without_hints_are_nobodys() -> None:
    stream = FakeStream(MODEL, [1, 2, 3], 40, loss=1.0)
    finished = answer(stream, [1, 2, 3], [drafter(MODEL)])
    assert (finished.stats.rounds, finished.stats.by_drafter) == (39, {})


@pytest.mark.parametrize("pass_s", [0.0, -1e-6])
def test_a_target_whose_passes_take_no_time_has_no_speed_of_its_own(pass_s: float) -> None:
    prompt = Committed(1, (3,), (1.0,), 0, 0, pass_s=pass_s)
    plain = Committed(2, (4,), (1.0,), 0, 0, pass_s=pass_s)
    drafted = Committed(3, (5, 6), (1.0, 1.0), 1, 1, pass_s=pass_s)
    finished = answer(Script([prompt, plain, drafted, Ended("length")]), [1], [])
    assert (finished.reason, finished.tokens) == ("length", (3, 4, 5, 6))
    assert (finished.stats.plain_tokens_per_s, finished.stats.speedup) == (None, None)


def test_the_draft_runs_no_further_ahead_than_is_of_use() -> None:
    stream = FakeStream(MODEL, [1, 2, 3], 40, lead=3, speed=0.1)
    committed = 0
    ahead: list[int] = []
    for event in answer_with_hints(stream, FakeVocab(V), [drafter(MODEL)], [1, 2, 3]):
        if isinstance(event, Chunk):
            committed += len(event.tokens)
        ahead.append(sum(map(len, stream.hints)) - committed)
    assert max(ahead) <= 3
    assert sum(map(len, stream.hints)) > 20


def test_text_ends_before_a_stop_string_and_the_target_is_told() -> None:
    whole = plain(MODEL, [1, 2, 3], 40)
    stop = whole.text[10:12]
    expected = plain(MODEL, [1, 2, 3], 40, stop=(stop,))
    stream = FakeStream(MODEL, [1, 2, 3], 40)
    finished = answer(stream, [1, 2, 3], [drafter(MODEL)], stop=(stop,))
    assert (finished.text, finished.tokens) == (expected.text, expected.tokens)
    assert finished.reason == "stop"


def test_nothing_is_drafted_beyond_an_end_token() -> None:
    model = scripted(V, [5, 6, 2, 7], start=2)
    vocab = FakeVocab(V, eog=(2,))
    stream = FakeStream(model, [1, 1], 10, eog=(2,))
    rig = Rig(model, model, n_vocab=V, eog=(2,), sampling=SAMPLING, rule="coupled")
    assert rig.drafter is not None
    *_, finished = answer_with_hints(stream, vocab, [rig.drafter], [1, 1])
    assert isinstance(finished, Finished)
    assert (finished.tokens, finished.reason) == ((5, 6), "stop")
    drafted = [token for hint in stream.hints for token in hint]
    assert 7 not in drafted


def test_an_answer_of_no_tokens_is_refused_at_once() -> None:
    stream = FakeStream(MODEL, [1, 2, 3], 40)
    with pytest.raises(ValueError, match="max_tokens"):
        answer_with_hints(stream, FakeVocab(V), [], [1, 2, 3], max_tokens=0)
    assert stream.closed


def test_cancel_keeps_what_came() -> None:
    abort = AbortFlag()
    stream = FakeStream(MODEL, [1, 2, 3], 40)
    events = answer_with_hints(stream, FakeVocab(V), [], [1, 2, 3], abort=abort)
    first = next(events)
    assert isinstance(first, Chunk)
    abort.set()
    *_, finished = events
    assert isinstance(finished, Finished)
    assert finished.reason == "cancelled"
    assert finished.tokens[: len(first.tokens)] == first.tokens
    assert stream.closed


def test_a_drafter_that_breaks_costs_its_drafts_only() -> None:
    def propose(prefix: Tokens, k: int) -> Draft:
        raise ZeroDivisionError("of its own")

    broken = drafter(MODEL)
    broken.propose = propose  # type: ignore[method-assign, assignment]
    finished = answer(FakeStream(MODEL, [1, 2, 3], 20), [1, 2, 3], [broken])
    assert finished.tokens == plain(MODEL, [1, 2, 3], 20).tokens
    assert finished.notices == ("the drafter fake failed (of its own): continuing without it",)


class Script(FakeStream):
    """Only what it is told."""

    def __init__(self, events: list[StreamEvent]) -> None:
        super().__init__(MODEL, [1], 1)
        self._events = events

    def wait(self, timeout: float) -> list[StreamEvent]:
        return [self._events.pop(0)]


def test_an_error_of_the_target_ends_the_answer_and_keeps_its_text() -> None:
    committed = Committed(1, (3, 4), (1.0, 1.0), 0, 0)
    script = Script([committed, Notice("cut"), Ended("error", error="it broke")])
    finished = answer(script, [1], [])
    assert (finished.reason, finished.error, finished.tokens) == ("error", "it broke", (3, 4))
    assert finished.notices == ("cut",)


def test_a_token_of_another_vocabulary_ends_the_answer_and_keeps_its_text() -> None:
    script = Script([Committed(1, (3,), (1.0,), 0, 0), Committed(2, (V,), (1.0,), 0, 0)])
    finished = answer(script, [1], [])
    assert (finished.reason, finished.tokens) == ("error", (3,))
    assert f"token {V}" in str(finished.error)


@pytest.mark.parametrize(("reason", "text"), [("length", "x"), ("stop", "x\ufffd")])
def test_only_an_answer_that_was_cut_ends_before_a_broken_character(
    reason: EndReason, text: str
) -> None:
    pieces = {3: b"x", 4: "ế".encode()[:2]}
    script = Script([Committed(1, (3, 4), (1.0, 1.0), 0, 0), Ended(reason)])
    *_, finished = answer_with_hints(script, FakeVocab(V, pieces=pieces), [], [1])
    assert isinstance(finished, Finished)
    assert (finished.text, finished.tokens) == (text, (3, 4))


class Watched(FakeStream):
    """Says what `say` does once a draft of the whole lead is hinted, ends when one is again."""

    def __init__(self, say: Callable[[list[int]], StreamEvent]) -> None:
        super().__init__(MODEL, [1, 2, 3], 40, lead=6)
        self.places: list[tuple[int, bytes, list[int]]] = []
        self.before: list[tuple[int, bytes, list[int]]] = []
        self._say = say

    def hint(self, pos: int, prefix_hash: bytes, tokens: Sequence[int]) -> None:
        self.places.append((pos, prefix_hash, list(tokens)))

    def wait(self, timeout: float) -> list[StreamEvent]:
        hinted = [token for *_, tokens in self.places for token in tokens]
        if timeout == 0:  # it goes on drafting
            return []
        if self.before:
            return [Ended("length")]
        self.before, self.places = self.places, []
        return [self._say(hinted)]


def joined(places: list[tuple[int, bytes, list[int]]]) -> tuple[int, bytes, list[int]]:
    """Hints that follow each other, as one."""
    pos, prefix_hash, _ = places[0]
    tokens: list[int] = []
    for at, _, more in places:
        assert at == pos + len(tokens)
        tokens += more
    return pos, prefix_hash, tokens


def test_an_open_draft_is_hinted_again_when_the_target_is_back() -> None:
    stream = Watched(lambda hinted: Opened())
    answer(stream, [1, 2, 3], [drafter(MODEL)])
    assert joined(stream.places) == joined(stream.before)
    assert len(joined(stream.places)[2]) == 6


def test_after_a_wrong_hint_the_new_draft_is_hinted_from_its_start() -> None:
    def other(hinted: list[int]) -> Committed:
        return Committed(3, ((hinted[0] + 1) % V,), (1.0,), 0, 1)

    stream = Watched(other)
    finished = answer(stream, [1, 2, 3], [drafter(MODEL)])
    pos, prefix_hash, tokens = joined(stream.places)
    assert (pos, len(tokens)) == (4, 6)
    assert prefix_hash == Transcript([1, 2, 3, *finished.tokens]).hash
