from specengine.control.hindsight import Hindsight
from specengine.core.drafter import Offer

OFFER = Offer("lookup", 16, 0.5)
Heard = list[tuple[int, int]]


def listening() -> tuple[Hindsight, Heard]:
    heard: Heard = []
    return Hindsight(lambda _, drafted, accepted: heard.append((drafted, accepted))), heard


def test_a_guess_is_judged_by_what_is_committed_after_it() -> None:
    hindsight, heard = listening()
    hindsight.guess(OFFER, [5, 6])
    hindsight.saw(5)
    assert heard == []
    hindsight.saw(6)
    assert heard == [(2, 2)]


def test_a_guess_ends_with_its_first_token_that_falls() -> None:
    hindsight, heard = listening()
    hindsight.guess(OFFER, [5, 6])
    for token in (5, 7, 6):
        hindsight.saw(token)
    assert heard == [(2, 1)]


def test_guesses_may_overlap() -> None:
    hindsight, heard = listening()
    hindsight.guess(OFFER, [5, 6])
    hindsight.saw(5)
    hindsight.guess(OFFER, [9, 9])
    hindsight.saw(6)
    assert heard == [(2, 2), (2, 0)]


def test_dropped_and_empty_guesses_are_not_judged() -> None:
    hindsight, heard = listening()
    hindsight.guess(OFFER, [])
    hindsight.guess(OFFER, [5])
    hindsight.drop()
    hindsight.saw(5)
    assert heard == []
