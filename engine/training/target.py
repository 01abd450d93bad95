"""The target in PyTorch, from the weights of its GGUF: many sequences a pass, features with them.

Only architecture `llama` with tied embeddings. bfloat16 matrices, because they run several times
faster than llama.cpp's passes on CPUs with AMX when every sequence brings one token.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from torch.nn import functional

from training.metadata import value

WEIGHTS = torch.bfloat16


@dataclass(frozen=True, slots=True)
class Shape:
    """The target's dimensions, as its metadata has them."""

    n_layer: int
    n_embd: int
    n_head: int
    n_kv: int
    n_vocab: int
    rope_base: float
    epsilon: float

    @property
    def head_size(self) -> int:
        return self.n_embd // self.n_head


@dataclass(slots=True)
class Step:
    """What one pass over one token of each sequence gives."""

    logits: torch.Tensor  # (sequences, n_vocab)
    features: torch.Tensor  # (sequences, 3 · n_embd): the inputs of the three layers, joined


class Target:
    """`n_sequences` sequences of at most `n_ctx` tokens; each pass takes one token of each."""

    def __init__(
        self, path: Path, layers: tuple[int, int, int], *, n_sequences: int, n_ctx: int
    ) -> None:
        reader = GGUFReader(path)
        self.shape = _shape(reader)
        if max(layers) >= self.shape.n_layer:
            raise ValueError(f"{path.name} has layers 0…{self.shape.n_layer - 1}, not {layers}")
        self.layers = layers
        self.n_sequences, self.n_ctx = n_sequences, n_ctx
        self._weights = {tensor.name: _tensor(tensor) for tensor in reader.tensors}
        shape = self.shape
        size = (shape.n_layer, n_sequences, shape.n_kv, n_ctx, shape.head_size)
        self._keys = torch.zeros(size, dtype=WEIGHTS)
        self._values = torch.zeros(size, dtype=WEIGHTS)
        self._rows = torch.arange(n_sequences)
        self._places = torch.arange(n_ctx)
        self._cos, self._sin = rotations(n_ctx, shape.head_size, shape.rope_base)

    @torch.inference_mode()
    def step(self, tokens: torch.Tensor, positions: torch.Tensor) -> Step:
        """Evaluate `tokens[s]` at `positions[s]` of sequence s, whose cache ends just before it."""
        embeddings = self._weights["token_embd.weight"]
        hidden = embeddings[tokens].float()
        width = int(positions.max()) + 1
        visible = self._places[:width] <= positions[:, None]
        mask = torch.zeros(visible.shape).masked_fill(~visible, -torch.inf).to(WEIGHTS)
        rotation = self._cos[positions], self._sin[positions]
        features = []
        for layer in range(self.shape.n_layer):
            if layer in self.layers:
                features.append(hidden.to(WEIGHTS))
            hidden = hidden + self._attention(layer, hidden, positions, mask, rotation)
            hidden = hidden + self._feed_forward(layer, hidden)
        final = self._norm("output_norm.weight", hidden)
        return Step(functional.linear(final, embeddings).float(), torch.cat(features, dim=-1))

    def _attention(
        self,
        layer: int,
        hidden: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor,
        rotation: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        shape, n = self.shape, len(hidden)
        normed = self._norm(f"blk.{layer}.attn_norm.weight", hidden)
        queries = rotate(self._heads(normed, layer, "attn_q"), *rotation)
        self._keys[layer][self._rows, :, positions] = rotate(
            self._heads(normed, layer, "attn_k"), *rotation
        ).to(WEIGHTS)
        self._values[layer][self._rows, :, positions] = self._heads(normed, layer, "attn_v")
        width = mask.shape[1]
        # The queries that share a key head stand together: rows of one small matrix.
        grouped = queries.to(WEIGHTS).view(n, shape.n_kv, -1, shape.head_size)
        keys, values = self._keys[layer][:, :, :width], self._values[layer][:, :, :width]
        mixed = functional.scaled_dot_product_attention(
            grouped, keys, values, attn_mask=mask[:, None, None].expand(-1, 1, grouped.shape[2], -1)
        )
        return self._linear(mixed.reshape(n, -1), layer, "attn_output").float()

    def _feed_forward(self, layer: int, hidden: torch.Tensor) -> torch.Tensor:
        normed = self._norm(f"blk.{layer}.ffn_norm.weight", hidden)
        gated = functional.silu(self._linear(normed, layer, "ffn_gate"))
        inner = gated * self._linear(normed, layer, "ffn_up")
        return self._linear(inner, layer, "ffn_down").float()

    def _heads(self, hidden: torch.Tensor, layer: int, name: str) -> torch.Tensor:
        return self._linear(hidden, layer, name).view(len(hidden), -1, self.shape.head_size)

    def _linear(self, hidden: torch.Tensor, layer: int, name: str) -> torch.Tensor:
        return functional.linear(hidden, self._weights[f"blk.{layer}.{name}.weight"])

    def _norm(self, name: str, hidden: torch.Tensor) -> torch.Tensor:
        weight = self._weights[name].float()
        return functional.rms_norm(hidden, (hidden.shape[-1],), weight, self.shape.epsilon).to(
            WEIGHTS
        )


def rotations(n: int, head_size: int, base: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of RoPE's angles at positions 0…n−1, each (n, head_size / 2)."""
    speeds = base ** (-torch.arange(0, head_size, 2, dtype=torch.float64) / head_size)
    angles = torch.arange(n, dtype=torch.float64)[:, None] * speeds
    return angles.cos().float(), angles.sin().float()


def rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """RoPE as llama.cpp's `llama` graph has it: neighbours are pairs. `heads`: (…, n_head, size),
    `cos` and `sin`: (…, size / 2).
    """
    even, odd = heads[..., 0::2].float(), heads[..., 1::2].float()
    cos, sin = cos[..., None, :], sin[..., None, :]
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    return turned.flatten(-2)


def embeddings(path: Path) -> torch.Tensor:
    """The target's token embeddings, (n_vocab, n_embd), bfloat16."""
    return next(_tensor(t) for t in GGUFReader(path).tensors if t.name == "token_embd.weight")


def _shape(reader: GGUFReader) -> Shape:
    if value(reader, "general.architecture") != "llama":
        raise ValueError("only targets of architecture llama can be trained for")
    if any(tensor.name == "output.weight" for tensor in reader.tensors):
        raise ValueError("only targets with tied embeddings can be trained for")
    return Shape(
        n_layer=value(reader, "llama.block_count"),
        n_embd=value(reader, "llama.embedding_length"),
        n_head=value(reader, "llama.attention.head_count"),
        n_kv=value(reader, "llama.attention.head_count_kv"),
        n_vocab=value(reader, "llama.vocab_size"),
        rope_base=value(reader, "llama.rope.freq_base"),
        epsilon=value(reader, "llama.attention.layer_norm_rms_epsilon"),
    )


def _tensor(tensor: Any) -> torch.Tensor:
    values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    return torch.from_numpy(values).to(WEIGHTS)
