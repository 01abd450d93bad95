"""A drafter that breaks costs its drafts, never the answer."""

from __future__ import annotations

import numpy as np
import pytest

from specengine.control.controller import Offer
from specengine.draft import Draft
from specengine.drafters.guard import Guard
from specengine.errors import CancelledError
from specengine.sequence import Tokens

PREFIX = np.array([1, 2, 3], dtype=np.int32)
OFFER = Offer("good", 4, 0.5)


class GoodDrafter:
    name = "good"
    abort = None
    draft_s = 0.0
    notice: str | None = None

    def offer(self, prefix: Tokens) -> Offer | None:
        return OFFER

    def propose(self, prefix: Tokens, k: int) -> Draft:
        return Draft()


class FailingDrafter(GoodDrafter):
    name = "failing"

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.asked = 0

    def offer(self, prefix: Tokens) -> Offer | None:
        self.asked += 1
        raise self.failure


def test_a_drafter_that_fails_is_named_once_and_asked_no_more() -> None:
    notices: list[str] = []
    guard = Guard(notices)
    failing = FailingDrafter(RuntimeError("out of luck"))
    assert [guard.offer(failing, PREFIX) for _ in range(3)] == [None, None, None]
    assert failing.asked == 1
    assert notices == ["drafter failing failed (out of luck): going on without it"]


def test_the_others_go_on() -> None:
    guard = Guard([])
    guard.offer(FailingDrafter(RuntimeError("out of luck")), PREFIX)
    assert guard.offer(GoodDrafter(), PREFIX) is OFFER
    assert guard.run(GoodDrafter(), lambda: 5, 0) == 5


def test_what_a_broken_drafter_would_have_done_is_not_done() -> None:
    guard = Guard([])
    failing = FailingDrafter(RuntimeError("out of luck"))
    guard.offer(failing, PREFIX)
    assert guard.run(failing, lambda: 5, 0) == 0


def test_cancelling_is_no_failure() -> None:
    notices: list[str] = []
    guard = Guard(notices)
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
    Guard(notices).offer(TalkingDrafter(), PREFIX)
    assert notices == ["the file has no room left"]
