from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from specengine.drafters.lookup import LookupDrafter

texts = st.lists(st.integers(0, 3), max_size=40)


def draft(drafter: LookupDrafter, text: Sequence[int], k: int = 4) -> tuple[str | None, list[int]]:
    prefix = np.array(text, dtype=np.int32)
    offer = drafter.offer(prefix)
    return (offer.kind if offer else None), drafter.propose(prefix, k).tokens


def test_it_copies_what_followed_the_longest_match() -> None:
    text = [5, 1, 2, 3, 10, 11, 12, 13, 2, 3, 20, 21, 22, 23, 7, 1, 2, 3]
    assert draft(LookupDrafter(), text) == ("lookup-phrase", [10, 11, 12, 13])


def test_among_equal_matches_the_most_frequent_continuation_wins() -> None:
    text = [1, 2, 30, 31, 1, 2, 30, 32, 1, 2, 40, 41, 9, 1, 2]
    kind, tokens = draft(LookupDrafter(), text, k=2)
    assert kind == "lookup-split"
    assert tokens == [30, 32]  # 30 came twice, 40 once; after 30 the newer of two


def test_a_text_that_goes_round_is_drafted_beyond_its_end() -> None:
    assert draft(LookupDrafter(), [9, 1, 2, 3, 1, 2, 3, 1, 2], k=7)[1] == [3, 1, 2, 3, 1, 2, 3]


def test_text_that_was_never_seen_gives_no_offer() -> None:
    assert draft(LookupDrafter(), [1, 2, 3, 4]) == (None, [])
    assert draft(LookupDrafter(), []) == (None, [])


def test_a_longer_match_is_of_a_surer_kind() -> None:
    for n, kind in ((1, "word"), (2, "phrase"), (3, "phrase"), (4, "copy"), (20, "copy")):
        repeated = list(range(100, 100 + n))
        assert draft(LookupDrafter(), [*repeated, 1, 2, 3, *repeated])[0] == f"lookup-{kind}"


def test_earlier_answers_are_drafted_from_where_this_chat_knows_less() -> None:
    drafter = LookupDrafter()
    drafter.remember([[1, 2, 3, 4, 50, 51], [60, 61, 62]])
    assert draft(drafter, [9, 2, 3, 4]) == ("earlier-phrase", [50, 51])  # ends with its text
    assert draft(drafter, [2, 3, 4, 77, 78, 9, 2, 3, 4], k=2) == ("lookup-phrase", [77, 78])
    assert draft(drafter, [3, 4, 77, 78, 9, 2, 3, 4], k=2) == ("earlier-phrase", [50, 51])
    assert draft(drafter, [9, 50, 51]) == (None, [])  # nothing followed
    assert draft(drafter, [51, 8, 7, 50, 51], k=2) == ("lookup-word", [8, 7])


def test_what_is_forgotten_is_drafted_no_more() -> None:
    drafter = LookupDrafter()
    drafter.remember([[1, 2, 3], [4, 5, 6]])
    assert draft(drafter, [9, 1, 2])[1] == [3]
    drafter.remember([[4, 5, 6]])
    assert draft(drafter, [9, 1, 2]) == (None, [])
    assert draft(drafter, [9, 4, 5])[1] == [6]


@given(st.lists(texts, min_size=1, max_size=6))
def test_edits_and_branches_leave_no_trace(edits: list[list[int]]) -> None:
    drafter = LookupDrafter()
    for text in edits:
        assert draft(drafter, text, 16) == draft(LookupDrafter(), text, 16)
