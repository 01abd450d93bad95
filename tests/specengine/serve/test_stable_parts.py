"""The step to which parts are padded is found, whatever it is, and nothing is promised without."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from specengine.cache.context import Logits
from specengine.cache.costs import PassCosts
from specengine.serve.batch_cache import Part
from specengine.serve.stable_parts import measure_costs, measure_part_step
from support.fake_batch_cache import FakeBatchCache
from support.fakes import markov

V = 12


class Kernels(FakeBatchCache):
    """Rows are exact in blocks of `block`, and what is left over is rounded differently, the more
    of it the more. Parts are worked on together as far as they are equally long. Without blocks
    every row depends on the neighbours.
    """

    def __init__(self, block: int | None, n_sequences: int = 3) -> None:
        super().__init__(
            markov(V, seed=3), V, n_sequences=n_sequences, n_batch=256, max_rows=64, step=1
        )
        self._block = block

    def decode(self, parts: Sequence[Part]) -> list[Logits]:
        shortest = min(len(part.tokens) for part in parts)
        return [
            np.stack([row * self._error(i, shortest, len(part.tokens), len(parts)) for i, row in
                      enumerate(rows, start=part.rows.start)]) if len(rows) else rows
            for part, rows in zip(parts, super().decode(parts), strict=True)
        ]  # fmt: skip

    def _error(self, row: int, shortest: int, n: int, n_parts: int) -> np.float32:
        if self._block is None:
            return np.float32(1 + 1e-6 * n_parts)
        share, place = (shortest, row) if row < shortest else (n - shortest, row - shortest)
        left_over = share % self._block
        return np.float32(1 + 1e-6 * left_over * (place >= share - left_over))


@pytest.mark.parametrize(("block", "step"), [(2, 2), (4, 4), (8, 8), (None, None)])
def test_the_smallest_step_that_leaves_nothing_over_is_found(
    block: int | None, step: int | None
) -> None:
    cache = Kernels(block)
    assert measure_part_step(cache) == step
    assert cache.held == [[], [], []]


def test_a_server_of_one_session_needs_no_neighbours() -> None:
    assert measure_part_step(Kernels(4, n_sequences=1)) == 4


@pytest.mark.parametrize("step", [1, 2, 8])
def test_costs_are_known_for_what_passes_are_padded_to(step: int) -> None:
    cache, costs = Kernels(step), PassCosts()
    measure_costs(cache, costs, step)
    assert costs.measured(step) is not None
    assert all(width % step == 0 for width in costs.as_dict())
    assert np.isclose(costs.seconds(16), 0.001)
    assert cache.held[0] == []
