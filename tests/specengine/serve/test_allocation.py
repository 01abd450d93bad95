from specengine.cache.costs import PassCosts
from specengine.serve.allocation import allocate

FLAT = PassCosts(dict.fromkeys(range(1, 33), 0.02))
STEEP = PassCosts({n: 0.02 * n for n in range(1, 33)})


def test_where_wide_passes_cost_nothing_every_hint_enters() -> None:
    assert allocate([[0.5, 0.2, 0.1], [0.9]], FLAT, step=2, max_rows=32) == [3, 1]


def test_where_each_row_costs_as_much_only_the_free_hint_enters() -> None:
    assert allocate([[0.9, 0.5], []], STEEP, step=2, max_rows=32) == [1, 0]


def test_the_most_promising_hints_enter_first() -> None:
    assert allocate([[0.9, 0.1], [0.8, 0.7]], FLAT, step=2, max_rows=6) == [1, 2]


def test_a_dear_width_is_passed_over_for_a_cheaper_one_beyond() -> None:
    """Kernels work in blocks of rows: four rows may cost less than three."""
    costs = PassCosts({1: 0.09, 2: 0.145, 3: 0.204, 4: 0.179, 5: 0.5})
    assert allocate([[0.95, 0.9, 0.85, 0.8]], costs, step=1, max_rows=32) == [3]


def test_nobody_at_work_needs_nothing() -> None:
    assert allocate([], FLAT, step=2, max_rows=32, others=64) == []


def test_padding_is_filled_and_more_comes_in_whole_steps() -> None:
    chances = [[0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1], [0.9]]
    assert allocate(chances, STEEP, step=8, max_rows=64) == [7, 1]
    assert allocate(chances, FLAT, step=8, max_rows=64) == [9, 1]
    assert allocate(chances, FLAT, step=8, max_rows=16) == [7, 1]
