import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from specengine.cache.checkpoints import Checkpoints


def state(length: int, n_bytes: int = 8) -> np.ndarray:
    return np.full(n_bytes, length % 256, dtype=np.uint8)


def grown(steps: list[int]) -> tuple[Checkpoints, list[int]]:
    """After passes of so many tokens each, and the lengths that were saved."""
    checkpoints, lengths, length = Checkpoints(), [], 0
    for step in steps:
        length += step
        checkpoints.add(length, state(length))
        lengths.append(length)
    return checkpoints, lengths


@given(st.lists(st.integers(1, 20), min_size=1, max_size=200))
def test_going_back_costs_at_most_as_much_again(steps: list[int]) -> None:
    checkpoints, lengths = grown(steps)
    for length in lengths:
        found = checkpoints.before(length)
        assert found is not None
        assert found.length <= length
        assert found.state[0] == found.length % 256
        assert length - found.length <= lengths[-1] - length


def test_few_states_are_kept_of_a_long_text() -> None:
    checkpoints, _ = grown([1] * 4096)
    assert len(checkpoints) <= 2 * 12
    newest = [checkpoints.before(length) for length in (4096, 4095, 4094)]
    assert [found.length for found in newest if found] == [4096, 4095, 4094]


def test_states_of_a_text_that_was_left_are_forgotten() -> None:
    checkpoints, _ = grown([10, 10, 10])
    checkpoints.add(15, state(15))
    assert [f.length for f in (checkpoints.before(n) for n in (14, 25, 35)) if f] == [10, 15, 15]
    assert len(checkpoints) == 2


def test_nothing_is_found_before_the_first_state() -> None:
    checkpoints, _ = grown([10])
    assert checkpoints.before(9) is None


def test_beyond_the_budget_the_oldest_states_go_and_the_newest_stays() -> None:
    checkpoints = Checkpoints(max_bytes=100)
    for length in (1, 100, 150, 175):
        checkpoints.add(length, state(length, n_bytes=40))
    assert checkpoints.before(149) is None
    checkpoints.add(200, state(200, n_bytes=400))
    assert len(checkpoints) == 1
    assert checkpoints.before(200) is not None
