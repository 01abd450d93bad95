"""Random weights for models and heads, and the weights that a file has."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from support.numpy_layers import Array


class RandomWeights:
    """The same ones for a seed, in the order in which they are asked for."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def matrix(self, rows: int, columns: int, scale: float = 1) -> Array:
        """It multiplies the size of what passes through it by about `scale`."""
        weights: Array = self.rng.standard_normal((rows, columns)) * scale / columns**0.5
        return weights

    def norm(self, n: int) -> Array:
        return self.rng.uniform(0.5, 1.5, n)

    def ids(self, n_vocab: int, n: int) -> NDArray[np.int64]:
        """`n` different tokens of a vocabulary, in ascending order."""
        return np.sort(self.rng.choice(n_vocab, n, replace=False)).astype(np.int64)


def dequantized(path: Path) -> dict[str, Array]:
    """The weights as the file has them."""
    return {
        tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)
        for tensor in gguf.GGUFReader(path).tensors
        if tensor.name != "d2t"
    }


def embeddings_of(path: Path) -> NDArray[np.float32]:
    """The token embeddings of a model file, shape (n_vocab, n_embd)."""
    tensor = next(t for t in gguf.GGUFReader(path).tensors if t.name == "token_embd.weight")
    return gguf.dequantize(tensor.data, tensor.tensor_type)
