"""Packed weights, byte for byte: docs/kernels.md has the pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.llama.backends import OWN_KERNELS
from support.ggml_products import Weights, buffer_types

Type = gguf.GGMLQuantizationType
Bytes = NDArray[Any]  # of uint8


@pytest.fixture(autouse=True)
def _kernels_are_there() -> None:
    if OWN_KERNELS not in buffer_types():
        pytest.skip("this build, or this CPU, has no kernels of ours")


def halves(stored: Bytes) -> Bytes:
    """The low, then the high half of each byte."""
    return np.concatenate([stored & 15, stored >> 4], -1)


def bits(stored: Bytes) -> Bytes:
    return np.unpackbits(stored, axis=-1, bitorder="little")


def six_bits(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Eight scales and eight minima from the 12 bytes that Q4_K and Q5_K have for them."""
    a, b, c = (packed[..., i : i + 4] for i in (0, 4, 8))
    scales = np.concatenate([a & 63, (c & 15) | (a >> 6 << 4)], -1)
    minima = np.concatenate([b & 63, (c >> 4) | (b >> 6 << 4)], -1)
    return scales, minima


def long_runs(stored: Bytes) -> Bytes:
    """Runs that lie in the low and the high halves of 32 bytes: of 256 values, eight."""
    shape = *stored.shape[:-1], 256
    return halves(stored.reshape(*stored.shape[:-1], 4, 32)).reshape(shape)


class Strips:
    """Blocks of a matrix as strips of two tiles: what is axis 0 becomes strip, tile and lane."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes

    def line(self, numbers: Bytes) -> Bytes:
        """What each output has in bytes, side by side: tile A's outputs, then tile B's."""
        return self._split(numbers).transpose(0, 3, 1, 2, 4).reshape(*self._shape(numbers), -1)

    def columns(self, numbers: Bytes) -> Bytes:
        """As `line` for each byte by itself."""
        return np.concatenate([self.line(numbers[..., i, None]) for i in range(16)], -1)

    def runs(self, values: Bytes, registers: Callable[[Bytes], Bytes]) -> Bytes:
        """Runs of 32 values: of each, A's registers and then B's, with four bytes a lane."""
        steps = values.reshape(*values.shape[:-1], -1, 8, 4)
        words = self._split(registers(steps).reshape(*values.shape[:-1], steps.shape[-3], -1, 4))
        return words.transpose(0, 3, 4, 1, 5, 2, 6).reshape(*self._shape(values), -1)

    def six_bits(self, numbers: tuple[Bytes, Bytes]) -> Bytes:
        """The third and fourth registers have two runs of an output side by side."""
        scales, minima = (self._split(one).transpose(0, 3, 1, 2, 4) for one in numbers)
        numbers_of_runs = (
            scales[..., :4].swapaxes(-1, -2),
            scales[..., 4:].swapaxes(-1, -2),
            minima[..., :4].reshape(*minima.shape[:-1], 2, 2).swapaxes(-2, -3),
            minima[..., 4:].reshape(*minima.shape[:-1], 2, 2).swapaxes(-2, -3),
        )
        a, b, c, d = (line.reshape(*line.shape[:3], -1) for line in numbers_of_runs)
        packed = [a | d << 6, b | d >> 2 << 6, c | d >> 4 << 6]
        return np.concatenate(packed, -1).reshape(*self._shape(numbers[0]), -1)

    def _split(self, blocks: Bytes) -> Bytes:
        return blocks.reshape(-1, 2, self._lanes, *blocks.shape[1:])

    def _shape(self, blocks: Bytes) -> tuple[int, int]:
        return blocks.shape[0] // (2 * self._lanes), blocks.shape[1]


def four_bits(steps: Bytes) -> Bytes:
    low = steps & 15
    return low[..., 0::2, :] | low[..., 1::2, :] << 4


def five_bits(steps: Bytes) -> Bytes:
    fifth = np.packbits(steps >> 4 & 1, axis=-2, bitorder="little")
    return np.concatenate([four_bits(steps), fifth], -2)


def upper_two_bits(steps: Bytes) -> Bytes:
    two = steps >> 4
    upper = [
        sum((two[..., 4 * half + s, :] << 2 * s for s in range(4)), np.uint8(0))
        for half in range(2)
    ]
    return np.concatenate([four_bits(steps), np.stack(upper, -2)], -2)


def packed(kind: Type, b: Bytes, lanes: int) -> Bytes:
    """`b`: blocks as a file has them, of the shape (outputs, blocks, bytes)."""
    strips = Strips(lanes)
    line, runs = strips.line, strips.runs
    match kind:
        case Type.Q4_0:
            parts = [line(b[..., :2]), runs(halves(b[..., 2:]), four_bits)]
        case Type.Q4_1:
            header = [line(b[..., :2]), line(b[..., 2:4])]
            parts = [*header, runs(halves(b[..., 4:]), four_bits)]
        case Type.Q5_0:
            values = halves(b[..., 6:]) | bits(b[..., 2:6]) << 4
            parts = [line(b[..., :2]), runs(values, five_bits)]
        case Type.Q8_0:
            parts = [line(b[..., :2]), runs(b[..., 2:] ^ 128, lambda steps: steps)]
        case Type.Q4_K | Type.Q5_K:
            header = [line(b[..., :2]), line(b[..., 2:4]), strips.six_bits(six_bits(b[..., 4:16]))]
            values = long_runs(b[..., -128:])
            if kind is Type.Q4_K:
                parts = [*header, runs(values, four_bits)]
            else:
                fifth = bits(b[..., 16:48]).reshape(*b.shape[:2], 32, 8).swapaxes(-1, -2)
                values |= fifth.reshape(values.shape) << 4
                parts = [*header, runs(values, five_bits)]
        case Type.Q6_K:
            # Of each 128 values: runs 0 and 1 in the low, 2 and 3 in the high halves of 64 bytes.
            low = halves(b[..., :128].reshape(*b.shape[:2], 2, 64)).reshape(*b.shape[:2], 256)
            upper = b[..., 128:192].reshape(*b.shape[:2], 2, 1, 32) >> np.arange(0, 8, 2)[:, None]
            values = low | ((upper & 3).reshape(low.shape) << 4).astype(np.uint8)
            header = [line(b[..., 208:]), strips.columns(b[..., 192:208])]
            parts = [*header, runs(values, upper_two_bits)]
    return np.concatenate(parts, -1).ravel()


BLOCK_BYTES = {
    Type.Q4_0: 18,
    Type.Q4_1: 20,
    Type.Q5_0: 22,
    Type.Q8_0: 34,
    Type.Q4_K: 144,
    Type.Q5_K: 176,
    Type.Q6_K: 210,
}


@pytest.mark.parametrize("kind", BLOCK_BYTES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("outputs", [64, 992])
def test_strips_lie_in_memory_as_the_document_says(kind: Type, outputs: int) -> None:
    """All of them full: test_products.py has others. 992 outputs are packed by several threads."""
    blocks, size = 47, BLOCK_BYTES[kind]
    inputs = blocks * (256 if size > 100 else 32)
    rng = np.random.default_rng(outputs)
    stored = rng.integers(0, 256, (outputs, blocks, size), np.uint8)
    with Weights(kind, stored[:1].reshape(1, -1), inputs, kernels=True) as one:
        lanes = one.bytes // (2 * blocks * size)
    with Weights(kind, stored.reshape(outputs, -1), inputs, kernels=True) as weights:
        found = weights.packed()
    assert np.array_equal(found, packed(kind, stored, lanes))
