import numpy as np
import pytest

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft
from specengine.core.errors import DraftError


def q(*probs: float) -> Distribution:
    return Distribution(np.arange(len(probs), dtype=np.int32), np.array(probs))


@pytest.mark.parametrize(
    "draft",
    [
        Draft(),
        Draft([0, 7], [None, None]),
        Draft([1], [q(0.25, 0.75)]),
        Draft([1, 0, 2], [q(0.25, 0.75), None, Distribution.point(2)]),
        Draft([0, 7], [None, None], [1.0, 0.0]),
        Draft([0], [None], [0.5, 0.5]),
    ],
)
def test_a_sound_draft_passes(draft: Draft) -> None:
    draft.check(longest=3, n_vocab=8)


@pytest.mark.parametrize(
    ("draft", "complaint"),
    [
        (Draft([1, 2, 3, 4], [None] * 4), "at most 3 were asked for"),
        (Draft([1, 2], [None]), "2 tokens with 1 distributions"),
        (Draft([8], [None]), "8 is not a token id from 0 to 7"),
        (Draft([-1], [None]), "-1 is not a token id"),
        (Draft([1.5], [None]), "1.5 is not a token id"),  # type: ignore[list-item]
        (Draft([2], [q(0.5, 0.5)]), "token 2 was not drawn"),
        (Draft([1], [q(1.0, 0.0)]), "token 1 was not drawn"),
        (Draft([1], [q(0.5, float("nan"))]), "token 1 was not drawn"),
        (Draft([1], [q(0.5, 0.6)]), "token 1 was not drawn"),
        (Draft([1], [None], [0.5, 0.5, 0.5]), "1 tokens with a confidence of"),
        (Draft([1, 2], [None, None], [0.5]), "2 tokens with a confidence of"),
        (Draft([1], [None], [float("nan")]), "with a confidence of"),
        (Draft([], [], [1.5]), "with a confidence of"),
    ],
)
def test_rubbish_is_named(draft: Draft, complaint: str) -> None:
    with pytest.raises(DraftError, match=complaint):
        draft.check(longest=3, n_vocab=8)
