"""A drafter that breaks costs its drafts, never the answer."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pytest

from specengine.core.cancel import AbortFlag
from specengine.core.distribution import Distribution
from specengine.core.draft import Draft
from specengine.core.drafter import Offer
from specengine.core.errors import CancelledError
from specengine.core.tokens import Tokens
from specengine.drafters.guard import Guard

PREFIX = np.array([1, 2, 3], dtype=np.int32)
OFFER = Offer("good", 4, 0.5)


class GoodDrafter:
    name = "good"
    abort: AbortFlag | None = None
    draft_s = 0.0
    notice: str | None = None

    def offer(self, prefix: Tokens) -> Offer | None:
        return OFFER

    def propose(self, prefix: Tokens, k: int) -> Draft:
        return Draft([4] * k, [None] * k)


class FailingDrafter(GoodDrafter):
    name = "failing"

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.asked = 0

    def offer(self, prefix: Tokens) -> Offer | None:
        self.asked += 1
        raise self.failure


def guarded(notices: list[str], abort: AbortFlag | None = None) -> Guard:
    return Guard(notices, n_vocab=8, abort=abort)


def test_a_drafter_that_fails_is_named_once_and_asked_no_more() -> None:
    notices: list[str] = []
    guard = guarded(notices)
    failing = FailingDrafter(RuntimeError("out of luck"))
    assert [guard.offer(failing, PREFIX) for _ in range(3)] == [None, None, None]
    assert failing.asked == 1
    assert notices == ["the drafter failing failed (out of luck): continuing without it"]


def test_the_others_go_on() -> None:
    guard = guarded([])
    guard.offer(FailingDrafter(RuntimeError("out of luck")), PREFIX)
    assert guard.offer(GoodDrafter(), PREFIX) is OFFER
    assert guard.propose(GoodDrafter(), OFFER, PREFIX, 2) == Draft([4, 4], [None, None])


def test_a_drafter_whose_offer_failed_is_not_asked_for_drafts() -> None:
    guard = guarded([])
    failing = FailingDrafter(RuntimeError("out of luck"))
    guard.offer(failing, PREFIX)
    assert guard.propose(failing, OFFER, PREFIX, 2) is None


def _cost(seconds: object) -> Offer:
    return Offer("good", 4, 0.5, together_s=lambda k: seconds)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("offer", "complaint"),
    [
        (_cost(math.nan), "asks for nan s"),
        (_cost(math.inf), "asks for inf s"),
        (_cost(-0.1), "asks for -0.1 s"),
        (Offer("good", 4, 0.5, token_s=math.nan), "asks for nan s"),
        (Offer("good", 4, 0.5, start_s=-1.0), "asks for -1.0 s"),
        (Offer("good", 4, 1.01), "with the acceptance rate 1.01"),
        (Offer("good", 4, math.nan), "with the acceptance rate nan"),
        (Offer("good", -1, 0.5), "-1 draft tokens"),
        # What Python says of these is its own.
        (Offer("good", 4, 0.5, together_s=lambda k: 1 / 0), ""),
        (Offer("good", 4, 0.5, together_s=lambda k: 1 / (4 - k)), ""),
        (_cost(None), ""),
        (Offer("good", 2.5, 0.5), ""),  # type: ignore[arg-type]
        ("four tokens", ""),
    ],
)
def test_an_offer_that_cannot_be_weighed_is_a_failure(offer: Offer, complaint: str) -> None:
    class Odd(GoodDrafter):
        def offer(self, prefix: Tokens) -> Offer:
            return offer

    notices: list[str] = []
    guard = guarded(notices)
    assert guard.offer(Odd(), PREFIX) is None
    assert guard.propose(Odd(), OFFER, PREFIX, 1) is None
    (notice,) = notices
    assert complaint in notice


@pytest.mark.parametrize(
    ("draft", "complaint"),
    [
        (None, ""),
        (Draft([8], [None]), "8 is not a token id from 0 to 7"),
        (Draft([1] * 3, [None] * 3), "at most 2 were asked for"),
        (Draft([1], [Distribution.point(2)]), "token 1 was not drawn"),
    ],
)
def test_a_draft_that_cannot_be_verified_is_a_failure(draft: Draft, complaint: str) -> None:
    class Odd(GoodDrafter):
        def propose(self, prefix: Tokens, k: int) -> Draft:
            return draft

    notices: list[str] = []
    guard = guarded(notices)
    assert guard.propose(Odd(), OFFER, PREFIX, 2) is None
    assert guard.offer(Odd(), PREFIX) is None
    (notice,) = notices
    assert complaint in notice
    assert notice.endswith("continuing without it")


def test_an_offer_of_no_tokens_is_no_guess_and_no_failure() -> None:
    class Full(GoodDrafter):
        def offer(self, prefix: Tokens) -> Offer:
            return Offer("good", 0, 0.5, together_s=lambda k: 1 / k)

    notices: list[str] = []
    assert guarded(notices).offer(Full(), PREFIX) is None
    assert notices == []


def test_a_drafter_cannot_change_the_text() -> None:
    class Vandal(GoodDrafter):
        def offer(self, prefix: Tokens) -> Offer:
            prefix[0] = 7
            return OFFER

        def propose(self, prefix: Tokens, k: int) -> Draft:
            prefix[0] = 7
            return Draft()

    text = PREFIX.copy()
    assert guarded([]).offer(Vandal(), text) is None
    assert guarded([]).propose(Vandal(), OFFER, text, 2) is None
    assert text.tolist() == [1, 2, 3]
    assert text.flags.writeable


class HangingDrafter(GoodDrafter):
    """Until its flag is set, as a pass of llama.cpp."""

    def __init__(self, abort: AbortFlag) -> None:
        self.abort = self._flag = abort

    def propose(self, prefix: Tokens, k: int) -> Draft:
        while not self._flag.is_set():
            time.sleep(0.001)
        raise CancelledError("cancelled")


def test_a_drafter_that_hangs_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specengine.drafters.guard._PATIENCE_S", 0.01)
    notices: list[str] = []
    person = AbortFlag()
    hanging = HangingDrafter(person.child())
    assert guarded(notices, person).propose(hanging, OFFER, PREFIX, 2) is None
    assert notices == [
        "the drafter good failed (it returned no draft within 0 s): continuing without it"
    ]
    assert not person.is_set()


def test_a_drafter_has_time_to_read_the_text_first(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def time_limit(flag: AbortFlag | None, seconds: float) -> AbstractContextManager[None]:
        limits.append(seconds)
        return nullcontext()

    monkeypatch.setattr("specengine.drafters.guard.time_limit", time_limit)
    long_text = Offer("good", 4, 0.5, start_s=100.0, token_s=0.1)
    assert guarded([]).propose(GoodDrafter(), long_text, PREFIX, 2) is not None
    assert limits[0] > 2 * 100.0


def test_a_person_who_cancels_while_a_draft_is_made_is_heeded() -> None:
    person = AbortFlag()
    hanging = HangingDrafter(person.child())
    person.set()
    with pytest.raises(CancelledError):
        guarded([], person).propose(hanging, OFFER, PREFIX, 2)


def test_cancelling_is_no_failure() -> None:
    notices: list[str] = []
    guard = guarded(notices)
    failing = FailingDrafter(CancelledError("cancelled"))
    for _ in range(2):
        with pytest.raises(CancelledError):
            guard.offer(failing, PREFIX)
    assert failing.asked == 2
    assert notices == []


def test_what_a_drafter_has_to_say_is_noted() -> None:
    class TalkingDrafter(GoodDrafter):
        notice = "the file has no room left"

    notices: list[str] = []
    guarded(notices).offer(TalkingDrafter(), PREFIX)
    assert notices == ["the file has no room left"]
