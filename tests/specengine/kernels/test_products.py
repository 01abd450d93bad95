"""The kernels' products: exact to the row, and no less accurate than llama.cpp's own."""

from __future__ import annotations

from collections.abc import Iterator

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.llama.backends import OWN_KERNELS
from support.ggml_products import Floats, Weights, buffer_types, quantized

Type = gguf.GGMLQuantizationType
RUNS = (Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q8_0)
BLOCKS = (Type.Q4_K, Type.Q5_K, Type.Q6_K)
TYPES = (*RUNS, *BLOCKS)
WIDTHS = (*range(1, 18), 64)
ROWS = 64


@pytest.fixture(autouse=True)
def _kernels_are_there() -> None:
    if OWN_KERNELS not in buffer_types():
        pytest.skip("this build, or this CPU, has no kernels of ours")


def inputs_of(kind: Type) -> tuple[int, ...]:
    """Rows of one block, and of an odd number of them."""
    block = 256 if kind in BLOCKS else 32
    return block, 5 * block


def numbers(shape: tuple[int, ...], seed: int = 0) -> Floats:
    """Normally distributed, a few of them much larger: as activations are."""
    rng = np.random.default_rng(seed)
    result = rng.standard_normal(shape)
    result[rng.random(shape) < 0.02] *= 8
    return result.astype(np.float32)


def matrix(kind: Type, outputs: int, inputs: int, scale: float = 0.02) -> NDArray[np.uint8]:
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((outputs, inputs)) * scale + scale / 8
    return quantized(kind, weights.astype(np.float32))


def alone(weights: Weights, rows: Floats) -> Floats:
    return np.stack([weights.times(row[None])[0] for row in rows])


def same_bits(one: Floats, other: Floats) -> bool:
    return np.array_equal(one.view(np.uint32), other.view(np.uint32))


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("outputs", [32, 96, 1, 33, 200])
def test_a_row_has_the_same_bits_whatever_rows_and_threads_there_are(
    kind: Type, outputs: int
) -> None:
    for inputs in inputs_of(kind):
        rows = numbers((ROWS, inputs))
        with Weights(kind, matrix(kind, outputs, inputs), inputs, kernels=True) as weights:
            expected = alone(weights, rows)
            for width in WIDTHS:
                for threads in (1, 2, 3, 4):
                    start = (ROWS - width) // 2
                    some = weights.times(rows[start : start + width], threads)
                    assert same_bits(some, expected[start : start + width]), (width, threads)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("inputs", [256, 1536, 8960])
def test_the_error_is_no_larger_than_that_of_llama_cpps_own_products(
    kind: Type, inputs: int
) -> None:
    packed, rows = matrix(kind, 96, inputs), numbers((16, inputs))
    exact = rows.astype(np.float64) @ gguf.dequantize(packed, kind).astype(np.float64).T
    with Weights(kind, packed, inputs, kernels=True) as ours:
        error = np.linalg.norm(ours.times(rows) - exact) / np.linalg.norm(exact)
    with Weights(kind, packed, inputs, kernels=False) as theirs:
        bound = np.linalg.norm(alone(theirs, rows) - exact) / np.linalg.norm(exact)
    # Both are the rounding of the rows to bytes, which the two do in slightly different ways.
    assert error <= bound * 1.002


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e30])
def test_rows_of_any_scale_are_as_accurate(kind: Type, scale: float) -> None:
    packed, rows = matrix(kind, 32, 512), numbers((4, 512))
    with Weights(kind, packed, 512, kernels=True) as weights:
        usual = weights.times(rows).astype(np.float64)
        scaled = weights.times(rows * np.float32(scale)).astype(np.float64)
    assert np.linalg.norm(scaled / scale - usual) <= 1e-3 * np.linalg.norm(usual)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_rows_and_weights_of_zeros_give_zeros(kind: Type) -> None:
    with Weights(kind, matrix(kind, 32, 512), 512, kernels=True) as weights:
        assert not weights.times(np.zeros((3, 512), np.float32)).any()
    empty = quantized(kind, np.zeros((32, 512), np.float32))
    with Weights(kind, empty, 512, kernels=True) as weights:
        assert not weights.times(numbers((3, 512))).any()


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 3e38, 1e-42])
def test_a_row_that_is_no_number_spoils_only_itself(kind: Type, bad: float) -> None:
    rows = numbers((9, 512))
    with Weights(kind, matrix(kind, 64, 512), 512, kernels=True) as weights:
        expected = weights.times(rows)
        rows[4, 100] = bad
        if abs(bad) < 1:
            rows[4] = bad
        spoiled = weights.times(rows)
        others = [row for row in range(9) if row != 4]
        assert same_bits(spoiled[others], expected[others])
        assert np.array_equal(spoiled[4:5], weights.times(rows[4:5]), equal_nan=True)
        assert np.isfinite(bad) or not np.isfinite(spoiled[4]).any()


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_rows_in_more_dimensions_are_rows(kind: Type) -> None:
    rows = numbers((2, 3, 5, 512))
    with Weights(kind, matrix(kind, 40, 512), 512, kernels=True) as weights:
        expected = weights.times(rows.reshape(-1, 512)).reshape(2, 3, 5, 40)
        assert same_bits(weights.times(rows), expected)
        assert same_bits(weights.times(rows, permuted=True), expected)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("shared", [False, True])
def test_rows_of_experts_are_what_each_experts_matrix_gives(kind: Type, shared: bool) -> None:
    experts, tokens, slots = 5, 23, 3
    packed = matrix(kind, experts * 40, 512).reshape(experts, 40, -1)
    rows = numbers((tokens, 1 if shared else slots, 512))
    rng = np.random.default_rng(2)
    chosen = np.stack([rng.permutation(experts)[:slots] for _ in range(tokens)]).astype(np.int32)
    expected = np.empty((tokens, slots, 40), np.float32)
    for expert in range(experts):
        with Weights(kind, packed[expert], 512, kernels=True) as weights:
            for token, slot in np.argwhere(chosen == expert):
                row = rows[token, 0 if shared else slot]
                expected[token, slot] = weights.times(row[None])[0]
    with Weights(kind, packed, 512, kernels=True) as weights:
        for threads in (1, 3):
            assert same_bits(weights.times_by_expert(rows, chosen, threads), expected)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_packed_weights_take_the_files_room(kind: Type) -> None:
    packed = matrix(kind, 96, 512)
    with Weights(kind, packed, 512, kernels=True) as weights:
        assert weights.bytes == packed.nbytes


def weights_of(kind: Type) -> Iterator[Weights]:
    packed = quantized(kind, np.ones((32, 256), np.float32))
    with Weights(kind, packed, 256, kernels=True) as weights:
        yield weights


@pytest.mark.parametrize("kind", [Type.Q2_K, Type.Q3_K, Type.Q5_1, Type.IQ4_NL, Type.F16])
def test_other_types_are_left_to_llama_cpp(kind: Type) -> None:
    for weights in weights_of(kind):
        assert not weights.supported()
