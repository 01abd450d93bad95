"""Which tokens a head may draft."""

from __future__ import annotations

import numpy as np
import pytest

from training.vocabulary import choose, inverse

EXPECTED = np.array([0.5, 9.0, 0.0, 3.0, 7.0])


def test_likeliest_ids_are_chosen_in_ascending_order() -> None:
    assert choose(EXPECTED, 3).tolist() == [1, 3, 4]


def test_more_ids_than_the_target_has_are_refused() -> None:
    with pytest.raises(ValueError, match="6 of 5"):
        choose(EXPECTED, 6)


def test_inverse_maps_back_and_marks_what_is_missing() -> None:
    ids = choose(EXPECTED, 3)
    assert inverse(ids, 5).tolist() == [-1, 0, -1, 1, 2]
