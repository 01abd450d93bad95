"""The target is out of reach amid an answer: the draft model goes on, and is verified later."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from specengine.core.drafter import Drafter
from specengine.core.events import Chunk, Finished, Reviewed, Unverified, Version
from specengine.drafters.lookup import LookupDrafter
from specengine.stream.duplex import answer_with_hints
from specengine.stream.target_stream import Opened, StreamEvent
from specengine.stream.unverified import PartialAnswer
from support.fake_stream import MODEL, SAMPLING, FakeStream, V, drafter, plain
from support.fakes import FakeVocab, Model, markov, scripted

PROMPT = [1, 2, 3]
N = 40
OTHER = markov(V, seed=9)
SEED = SAMPLING.seed or 0


class LosingStream(FakeStream):
    """Out of reach once `after` tokens have come, for so many looks at it."""

    def __init__(self, *, after: int, looks: int, model: Model = MODEL, n: int = N) -> None:
        super().__init__(model, PROMPT, n)
        self._after, self._looks = after, looks
        self._came = 0

    def wait(self, timeout: float) -> list[StreamEvent]:
        if self._came >= self._after and self._looks > 0:
            self._looks -= 1
            self.lost = "no connection" if self._looks else None
            return [] if self._looks else [Opened()]
        events = super().wait(timeout)
        self._came += sum(len(getattr(event, "tokens", ())) for event in events)
        return events


def answer(
    stream: FakeStream, drafters: Sequence[Drafter], **options: object
) -> tuple[Finished, list[Version]]:
    """How it ends, and what the person saw after each event."""
    now = Version("", (), None)
    begun = options.get("begun")
    if isinstance(begun, PartialAnswer):
        vocab = FakeVocab(V)
        text = b"".join(map(vocab.piece, begun.tokens)).decode()
        now = Version(text, begun.tokens, begun.unverified)
    seen: list[Version] = []
    events = answer_with_hints(
        stream, FakeVocab(V), drafters, PROMPT, seed=SEED, max_tokens=N, **options  # type: ignore[arg-type]
    )  # fmt: skip
    for event in events:
        if isinstance(event, Chunk):
            now = Version(now.text + event.text, now.tokens + event.tokens, event.unverified)
        elif isinstance(event, Reviewed):
            now = event.now
        elif isinstance(event, Finished):
            assert (now.text, now.tokens) == (event.text, event.tokens)
            assert now.unverified == event.unverified
            return event, seen
        seen.append(now)
    raise AssertionError("no Finished")


def test_the_draft_model_goes_on_and_its_words_are_marked() -> None:
    finished, seen = answer(LosingStream(after=9, looks=10**6), [drafter(OTHER)])
    verified = plain(MODEL, PROMPT, N).tokens
    mark = finished.unverified
    assert mark is not None
    assert 9 <= mark.token < N
    assert finished.tokens[: mark.token] == verified[: mark.token]
    # From there on the draft model speaks, with the noise that the target would have used.
    own = plain(OTHER, [*PROMPT, *verified[: mark.token]], N - mark.token).tokens
    assert finished.tokens[mark.token :] == own
    assert (mark.char, mark.writer, mark.seed) == (mark.token, "fake", SEED)
    assert (finished.reason, finished.error) == ("length", None)
    assert finished.stats.completion_tokens == N
    assert "has not verified" in finished.notices[-1]
    assert all(version.unverified in (None, mark) for version in seen)


def test_what_the_target_would_have_said_loses_its_mark() -> None:
    finished, seen = answer(LosingStream(after=9, looks=4), [drafter(MODEL)])
    assert any(version.unverified for version in seen)
    assert finished.tokens == plain(MODEL, PROMPT, N).tokens
    assert finished.unverified is None
    assert finished.replaced == ()


def test_where_the_target_goes_on_differently_both_are_kept() -> None:
    finished, seen = answer(LosingStream(after=9, looks=6), [drafter(OTHER)])
    expected = plain(MODEL, PROMPT, N).tokens
    assert finished.tokens == expected
    assert finished.unverified is None
    (replaced,) = finished.replaced
    mark = replaced.unverified
    assert mark is not None
    assert replaced.tokens[: mark.token] == expected[: mark.token]
    assert replaced.tokens[mark.token] != expected[mark.token]
    shown = [version for version in seen if version.unverified]
    assert replaced.text == max(shown, key=lambda version: len(version.text)).text
    assert "another version" in finished.notices[-1]


def test_words_that_stand_were_hints_and_saved_passes() -> None:
    stream = LosingStream(after=3, looks=10)
    finished, seen = answer(stream, [drafter(MODEL)])
    verified_later = max(len(version.tokens) for version in seen if version.unverified)
    assert verified_later > 20
    assert (finished.stats.target_passes or N) < N - 20


@pytest.mark.parametrize("model", [MODEL, OTHER])
def test_an_answer_is_verified_later(model: Model) -> None:
    lost, _ = answer(LosingStream(after=9, looks=10**6), [drafter(model)])
    assert lost.unverified is not None
    begun = PartialAnswer(lost.tokens, lost.unverified)
    verified = lost.tokens[: lost.unverified.token]
    stream = FakeStream(MODEL, [*PROMPT, *verified], N - len(verified))
    finished, _ = answer(stream, [], begun=begun)
    assert finished.tokens == plain(MODEL, PROMPT, N).tokens
    assert finished.unverified is None
    assert bool(finished.replaced) == (model is OTHER)
    if finished.replaced:
        assert finished.replaced[0].tokens == lost.tokens


def test_the_target_may_end_where_the_draft_model_went_on() -> None:
    target = scripted(V, [5, 6, 2], start=3)
    tokens = (5, 6, 7, 8)
    stream = FakeStream(target, PROMPT, 10, eog=(2,))
    finished, _ = answer(stream, [], begun=PartialAnswer(tokens, Unverified(0, 0, "fake", SEED)))
    assert (finished.tokens, finished.reason) == ((5, 6), "stop")
    assert finished.replaced == (Version("fghi", tokens, Unverified(2, 2, "fake", SEED)),)


def test_what_is_looked_up_is_nobodys_words() -> None:
    lookup = LookupDrafter()
    lookup.remember([list(range(V)) * 3])
    finished, _ = answer(LosingStream(after=9, looks=10**6), [lookup, drafter(OTHER)])
    assert finished.unverified is not None
    n = finished.unverified.token
    assert finished.tokens[n:] == plain(OTHER, [*PROMPT, *finished.tokens[:n]], N - n).tokens


def test_without_a_draft_model_the_answer_ends_and_keeps_what_came() -> None:
    finished, _ = answer(LosingStream(after=9, looks=10**6), [])
    assert finished.reason == "error"
    assert finished.error == "no connection, and the draft model cannot go on by itself"
    assert finished.tokens == plain(MODEL, PROMPT, N).tokens[: len(finished.tokens)]
    assert len(finished.tokens) >= 9
