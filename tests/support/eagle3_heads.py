"""EAGLE-3 heads with random weights, written as GGUF, and the same head in NumPy.

The reference is written from the papers and the meaning of the tensors: rows are computed all at
once, by full causal attention, in float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from specengine.gguf import read_gguf
from support.head_files import write_file

Array = NDArray[np.float64]

N_HEAD, N_HEAD_KV, HEAD_DIM = 4, 2, 32
N_FF = 96
EPSILON = 1e-5
ROPE_BASE = 10000.0


@dataclass
class HeadWeights:
    """What is written to the file; `d2t` is the target's id of each of the draft's tokens."""

    n_embd: int
    n_vocab: int
    layers: tuple[int, ...]
    tensors: dict[str, Array]
    d2t: NDArray[np.int64]
    norm_before_fc: bool
    norm_before_residual: bool
    metadata: dict[str, Any] = field(default_factory=dict)


def random_head(
    n_embd: int,
    n_vocab: int,
    *,
    layers: Sequence[int] = (2, 15, 27),
    n_draft_vocab: int = 300,
    norm_before_fc: bool = True,
    norm_before_residual: bool = False,
    seed: int = 3,
) -> HeadWeights:
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, scale: float = 1) -> Array:
        values: Array = rng.standard_normal((rows, columns)) * scale / columns**0.5
        return values

    def norm(n: int) -> Array:
        return rng.uniform(0.5, 1.5, n)

    wide, heads, heads_kv = 2 * n_embd, N_HEAD * HEAD_DIM, N_HEAD_KV * HEAD_DIM
    tensors = {
        "fc.weight": matrix(n_embd, 3 * n_embd),
        "blk.0.attn_norm.weight": norm(n_embd),
        "blk.0.attn_norm_2.weight": norm(n_embd),
        "blk.0.attn_q.weight": matrix(heads, wide),
        "blk.0.attn_k.weight": matrix(heads_kv, wide),
        "blk.0.attn_v.weight": matrix(heads_kv, wide),
        "blk.0.attn_output.weight": matrix(n_embd, heads),
        "blk.0.ffn_norm.weight": norm(n_embd),
        "blk.0.ffn_gate.weight": matrix(N_FF, n_embd),
        "blk.0.ffn_up.weight": matrix(N_FF, n_embd),
        "blk.0.ffn_down.weight": matrix(n_embd, N_FF),
        "output_norm.weight": norm(n_embd),
        "output.weight": matrix(n_draft_vocab, n_embd, scale=3),
    }
    if norm_before_fc:
        tensors["enc.output_norm.weight"] = norm(3 * n_embd)
    d2t = np.sort(rng.choice(n_vocab, n_draft_vocab, replace=False)).astype(np.int64)
    return HeadWeights(
        n_embd, n_vocab, tuple(layers), tensors, d2t, norm_before_fc, norm_before_residual
    )


def write_head(
    path: Path,
    head: HeadWeights,
    vocabulary: Path | None,
    *,
    quantization: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    metadata: Mapping[str, Any] | None = None,
    tensors: Mapping[str, NDArray[Any] | None] | None = None,
) -> Path:
    """Write `head` with the tokenizer of the file `vocabulary`. `metadata` and `tensors` replace
    what is written, or leave it out where they say None.
    """
    entries: dict[str, Any] = {
        "block_count": 1,
        "context_length": 1024,
        "embedding_length": head.n_embd,
        "feed_forward_length": N_FF,
        "attention.head_count": N_HEAD,
        "attention.head_count_kv": N_HEAD_KV,
        "attention.key_length": HEAD_DIM,
        "attention.value_length": HEAD_DIM,
        "attention.layer_norm_rms_epsilon": EPSILON,
        "rope.dimension_count": HEAD_DIM,
        "rope.freq_base": ROPE_BASE,
        "target_layers": list(head.layers),
        "target_hidden_size": head.n_embd,
        "norm_before_fc": head.norm_before_fc,
        "norm_before_residual": head.norm_before_residual,
    }
    return write_file(
        path,
        "eagle3",
        {**entries, **head.metadata, **(metadata or {})},
        {**head.tensors, "d2t": head.d2t, **(tensors or {})},
        head.n_vocab if vocabulary is None else vocabulary,
        quantization,
    )


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


class NumpyHead:
    """Logits by the definition of the head."""

    def __init__(
        self,
        head: HeadWeights,
        tensors: Mapping[str, Array],
        embeddings: NDArray[np.float32],
    ) -> None:
        self._head = head
        self._w = tensors
        self._embeddings = embeddings.astype(np.float64)

    def logits(
        self, tokens: Sequence[int], features: NDArray[np.float32], drafted: int = 0
    ) -> Array:
        """After `tokens`, of which the last `drafted` are a draft; shape (n_vocab,).

        `features` (n, 3 * n_embd) are the target's for those that are none.
        """
        verified = len(tokens) - 1 - drafted
        hidden = self._fuse(features[:verified].astype(np.float64))
        states = self._layer(tokens[1 : verified + 1], hidden)
        for end in range(verified + 2, len(tokens) + 1):
            hidden = np.concatenate((hidden, states[-1:]))
            states = self._layer(tokens[1:end], hidden)
        result: Array = np.full(self._head.n_vocab, -np.inf)
        result[self._head.d2t] = (
            self._rms(states[-1], "output_norm.weight") @ self._w["output.weight"].T
        )
        return result

    def _fuse(self, features: Array) -> Array:
        if self._head.norm_before_fc:
            features = self._rms(features, "enc.output_norm.weight")
        return features @ self._w["fc.weight"].T

    def _layer(self, tokens: Sequence[int], hidden: Array) -> Array:
        """Hidden states of all rows, shape (n, n_embd)."""
        w = self._w
        normed = self._rms(hidden, "blk.0.attn_norm_2.weight")
        embedded = self._rms(self._embeddings[list(tokens)], "blk.0.attn_norm.weight")
        both = np.concatenate((embedded, normed), axis=1)
        residual = normed if self._head.norm_before_residual else hidden
        x = residual + self._attention(both) @ w["blk.0.attn_output.weight"].T
        y = self._rms(x, "blk.0.ffn_norm.weight")
        gate = y @ w["blk.0.ffn_gate.weight"].T
        up = y @ w["blk.0.ffn_up.weight"].T
        result: Array = x + (gate / (1 + np.exp(-gate)) * up) @ w["blk.0.ffn_down.weight"].T
        return result

    def _attention(self, x: Array) -> Array:
        n = len(x)
        q = _rotated((x @ self._w["blk.0.attn_q.weight"].T).reshape(n, N_HEAD, HEAD_DIM))
        k = _rotated((x @ self._w["blk.0.attn_k.weight"].T).reshape(n, N_HEAD_KV, HEAD_DIM))
        v = (x @ self._w["blk.0.attn_v.weight"].T).reshape(n, N_HEAD_KV, HEAD_DIM)
        k, v = (np.repeat(each, N_HEAD // N_HEAD_KV, axis=1) for each in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / HEAD_DIM**0.5
        scores[:, np.triu(np.ones((n, n), dtype=bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        result: Array = np.einsum("hij,jhd->ihd", weights, v).reshape(n, N_HEAD * HEAD_DIM)
        return result

    def _rms(self, x: Array, weight: str) -> Array:
        scale = np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + EPSILON)
        result: Array = x / scale * self._w[weight]
        return result


def _rotated(x: Array) -> Array:
    """Rotary positions over neighbouring pairs, row i at position i; shape (n, heads, dim)."""
    n, _, dim = x.shape
    angle = np.arange(n)[:, None] * ROPE_BASE ** (-np.arange(0, dim, 2) / dim)
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    even, odd = x[..., 0::2], x[..., 1::2]
    result = np.empty_like(x)
    result[..., 0::2] = even * cos - odd * sin
    result[..., 1::2] = even * sin + odd * cos
    return result


def n_vocab_of(path: Path) -> int:
    return read_gguf(path).n_vocab
