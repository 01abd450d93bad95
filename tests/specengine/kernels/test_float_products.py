"""Products that are not quantized, as attention has them with the keys and the values."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.llama.backends import OWN_KERNELS
from support.ggml_products import Floats, Weights, buffer_types

Type = gguf.GGMLQuantizationType
KINDS = (Type.F16, Type.F32)


@pytest.fixture(autouse=True)
def _kernels_are_there() -> None:
    if OWN_KERNELS not in buffer_types():
        pytest.skip("this build, or this CPU, has no kernels of ours")


def stored(kind: Type, matrix: Floats) -> NDArray[np.uint8]:
    rows = matrix.astype(np.float16 if kind is Type.F16 else np.float32)
    return rows.view(np.uint8).reshape(*matrix.shape[:-1], -1)


def numbers(*shape: int) -> Floats:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def same_bits(one: Floats, other: Floats) -> bool:
    return np.array_equal(one.view(np.uint32), other.view(np.uint32))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    ("inputs", "outputs"), [(64, 256), (256, 64), (96, 7), (512, 1), (80, 333)]
)
def test_a_row_has_the_same_bits_whatever_rows_and_threads_there_are(
    kind: Type, inputs: int, outputs: int
) -> None:
    rows = numbers(70, inputs)
    with Weights(kind, stored(kind, numbers(outputs, inputs)), inputs) as weights:
        expected = np.stack([weights.times(row[None])[0] for row in rows])
        for width in (*range(1, 18), 64, 70):
            for threads in (1, 2, 3, 4):
                some = weights.times(rows[-width:], threads)
                assert same_bits(some, expected[-width:]), (width, threads)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("heads", [(2, 6), (3, 3), (1, 5)])
def test_heads_that_share_a_matrix_each_get_the_product_with_it(
    kind: Type, heads: tuple[int, int]
) -> None:
    matrices, rows = numbers(heads[0], 40, 128), numbers(heads[1], 5, 128)
    with Weights(kind, stored(kind, matrices), 128) as weights:
        products = weights.times(rows)
        assert same_bits(weights.times(rows, permuted=True), products)
    exact = np.repeat(matrices, heads[1] // heads[0], 0).astype(np.float64)
    expected = rows.astype(np.float64) @ exact.swapaxes(1, 2)
    assert np.linalg.norm(products - expected) <= 1e-3 * np.linalg.norm(expected)
    for head, row in enumerate(rows):
        matrix = matrices[head * heads[0] // heads[1]]
        with Weights(kind, stored(kind, matrix), 128) as weights:
            assert same_bits(weights.times(row), products[head])


def test_cells_that_are_masked_change_no_bit_of_what_comes_before_them() -> None:
    rows = numbers(3, 512)
    rows[:, 256:] = 0
    values = numbers(64, 512)
    with Weights(Type.F16, stored(Type.F16, values), 512) as weights:
        padded = weights.times(rows)
    with Weights(Type.F16, stored(Type.F16, values[:, :256]), 256) as weights:
        assert same_bits(weights.times(rows[:, :256]), padded)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_row_that_is_no_number_spoils_only_itself(bad: float) -> None:
    rows = numbers(7, 64)
    with Weights(Type.F16, stored(Type.F16, numbers(40, 64)), 64) as weights:
        expected = weights.times(rows)
        rows[3, 5] = bad
        spoiled = weights.times(rows)
    others = [row for row in range(7) if row != 3]
    assert same_bits(spoiled[others], expected[others])
    assert not np.isfinite(spoiled[3]).any()
