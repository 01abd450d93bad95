"""Block heads with random weights (DFlash, DSpark, DFlash 2), and the same heads in NumPy.

The reference is written from the papers and the meaning of the tensors: no cache, every block is
computed whole, in float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from support.head_files import write_file

Array = NDArray[np.float64]

N_LAYERS = 2
N_HEAD, N_HEAD_KV, HEAD_DIM = 4, 2, 32
N_FF = 96
EPSILON = 1e-5
ROPE_BASE = 10000.0
BLOCK = 8
RANK = 12
KERNEL, GROUP, TOP_K = 3, 16, 5


@dataclass
class BlockWeights:
    """What is written to the file."""

    n_embd: int
    n_vocab: int
    layers: tuple[int, ...]
    mask: int
    tensors: dict[str, Array]
    metadata: dict[str, Any] = field(default_factory=dict)
    d2t: NDArray[np.int64] | None = None

    @property
    def anchored(self) -> bool:
        """Whether the row of the text's last token is the first draft token's."""
        return "markov_w1.weight" in self.tensors and self.metadata.get("sample_from_anchor", True)


def random_block_head(
    n_embd: int,
    n_vocab: int,
    *,
    layers: Sequence[int] = (2, 15, 27),
    mask: int = 0,
    markov: bool = False,
    selector: bool = False,
    n_draft_vocab: int | None = None,
    seed: int = 3,
    **metadata: Any,
) -> BlockWeights:
    """`markov`: a DSpark head; `selector`: DFlash 2; `n_draft_vocab`: an output matrix of so many
    tokens of its own, else it is the target's.
    """
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, scale: float = 1) -> Array:
        weights: Array = rng.standard_normal((rows, columns)) * scale / columns**0.5
        return weights

    def norm(n: int) -> Array:
        return rng.uniform(0.5, 1.5, n)

    heads, heads_kv = N_HEAD * HEAD_DIM, N_HEAD_KV * HEAD_DIM
    tensors = {
        "fc.weight": matrix(n_embd, len(layers) * n_embd),
        "enc.output_norm.weight": norm(n_embd),
        "output_norm.weight": norm(n_embd),
    }
    for i in range(N_LAYERS):
        tensors |= {
            f"blk.{i}.attn_norm.weight": norm(n_embd),
            f"blk.{i}.attn_q.weight": matrix(heads, n_embd),
            f"blk.{i}.attn_k.weight": matrix(heads_kv, n_embd),
            f"blk.{i}.attn_v.weight": matrix(heads_kv, n_embd),
            f"blk.{i}.attn_output.weight": matrix(n_embd, heads),
            f"blk.{i}.attn_q_norm.weight": norm(HEAD_DIM),
            f"blk.{i}.attn_k_norm.weight": norm(HEAD_DIM),
            f"blk.{i}.ffn_norm.weight": norm(n_embd),
            f"blk.{i}.ffn_gate.weight": matrix(N_FF, n_embd),
            f"blk.{i}.ffn_up.weight": matrix(N_FF, n_embd),
            f"blk.{i}.ffn_down.weight": matrix(n_embd, N_FF),
        }
        if selector:
            wide = 2 * KERNEL * n_embd // GROUP
            for part in ("attn", "ffn"):
                name = f"blk.{i}.{part}_conv"
                tensors[f"{name}_base"] = 0.3 * rng.standard_normal((2, KERNEL, n_embd))
                tensors[f"{name}_proj.weight"] = matrix(wide, n_embd, scale=0.3)
    d2t = None
    if n_draft_vocab is not None:
        tensors["output.weight"] = matrix(n_draft_vocab, n_embd, scale=3)
        d2t = np.sort(rng.choice(n_vocab, n_draft_vocab, replace=False)).astype(np.int64)
    if markov:
        tensors["markov_w1.weight"] = rng.standard_normal((n_vocab, RANK))
        tensors["markov_w2.weight"] = matrix(n_draft_vocab or n_vocab, RANK, scale=3)
    if selector:
        tensors["selector_hidden.weight"] = matrix(RANK, n_embd)
        tensors["selector_predecessor.weight"] = rng.standard_normal((n_vocab, RANK))
        tensors["selector_successor.weight"] = rng.standard_normal((n_vocab, RANK))
        metadata |= {
            "conv_kernel_size": KERNEL,
            "conv_group_size": GROUP,
            "selector_rank": RANK,
            "selector_top_k": TOP_K,
        }
    return BlockWeights(n_embd, n_vocab, tuple(layers), mask, tensors, metadata, d2t)


def write_block_head(
    path: Path,
    head: BlockWeights,
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
        "block_count": N_LAYERS,
        "block_size": BLOCK,
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
        "tokenizer.ggml.mask_token_id": head.mask,
    }
    return write_file(
        path,
        "dflash",
        {**entries, **head.metadata, **(metadata or {})},
        {**head.tensors, "d2t": head.d2t, **(tensors or {})},
        head.n_vocab if vocabulary is None else vocabulary,
        quantization,
    )


class NumpyBlockHead:
    """Rows of a block by the definition of the head."""

    def __init__(
        self,
        head: BlockWeights,
        tensors: Mapping[str, Array],
        embeddings: NDArray[np.float32],
    ) -> None:
        """`tensors` as the file has them; `embeddings` (n_vocab, n_embd) are the target's, and its
        output matrix.
        """
        self._head = head
        self._w = tensors
        self._embeddings = embeddings.astype(np.float64)

    def rows(self, last: int, features: NDArray[np.float32], k: int) -> Array:
        """Logits of `k` draft tokens after a text, shape (k, n_vocab).

        `last` is its last token, `features` (n - 1, width) are the target's at those before it.
        """
        head = self._head
        tokens = [last, *[head.mask] * (k - 1 if head.anchored else k)]
        hidden = self._hidden(tokens, features)
        logits = hidden @ self._w.get("output.weight", self._embeddings).T
        if "markov_w1.weight" in self._w:
            previous = last
            for i in range(0 if head.anchored else 1, len(tokens)):
                bias = self._w["markov_w2.weight"] @ self._w["markov_w1.weight"][previous]
                logits[i] += bias
                best = int(logits[i].argmax())
                previous = best if head.d2t is None else int(head.d2t[best])
        if head.d2t is None:
            return logits[-k:]
        result = np.full((k, head.n_vocab), -np.inf)
        result[:, head.d2t] = logits[-k:]
        return result

    def scores(
        self, last: int, features: NDArray[np.float32], k: int
    ) -> list[dict[tuple[int, int], float]]:
        """DFlash 2: for each draft token, a score for each candidate after each one before it."""
        tokens = [last, *[self._head.mask] * k]
        hidden = self._hidden(tokens, features)
        logits = hidden @ self._embeddings.T
        before, result = [last], []
        for i in range(1, k + 1):
            gate = self._w["selector_hidden.weight"] @ hidden[i]
            best = (-logits[i]).argsort()[:TOP_K].tolist()
            result.append(
                {
                    (p, c): float(
                        logits[i, c]
                        + self._w["selector_successor.weight"][c]
                        @ (self._w["selector_predecessor.weight"][p] * gate)
                    )
                    for p in before
                    for c in best
                }
            )
            before = best
        return result

    def _hidden(self, tokens: Sequence[int], features: NDArray[np.float32]) -> Array:
        """Normed states of the block's tokens, shape (len(tokens), n_embd)."""
        w, n = self._w, len(features)
        fused = self._rms(features.astype(np.float64) @ w["fc.weight"].T, "enc.output_norm.weight")
        x = self._embeddings[list(tokens)]
        for i in range(N_LAYERS):
            name = f"blk.{i}"
            y = self._rms(x, f"{name}.attn_norm.weight")
            into, out = self._convolutions(f"{name}.attn", y)
            y = into(y)
            keys, values = self._keys_and_values(name, np.concatenate((fused, y)))
            q = (y @ w[f"{name}.attn_q.weight"].T).reshape(len(y), N_HEAD, HEAD_DIM)
            q = _rotated(self._rms(q, f"{name}.attn_q_norm.weight"), start=n)
            x = x + out(self._attention(i, q, keys, values) @ w[f"{name}.attn_output.weight"].T)
            y = self._rms(x, f"{name}.ffn_norm.weight")
            into, out = self._convolutions(f"{name}.ffn", y)
            y = into(y)
            gate, up = y @ w[f"{name}.ffn_gate.weight"].T, y @ w[f"{name}.ffn_up.weight"].T
            x = x + out((gate / (1 + np.exp(-gate)) * up) @ w[f"{name}.ffn_down.weight"].T)
        return self._rms(x, "output_norm.weight")

    def _keys_and_values(self, name: str, x: Array) -> tuple[Array, Array]:
        k = (x @ self._w[f"{name}.attn_k.weight"].T).reshape(len(x), N_HEAD_KV, HEAD_DIM)
        v = (x @ self._w[f"{name}.attn_v.weight"].T).reshape(len(x), N_HEAD_KV, HEAD_DIM)
        return _rotated(self._rms(k, f"{name}.attn_k_norm.weight"), start=0), v

    def _attention(self, layer: int, q: Array, k: Array, v: Array) -> Array:
        k, v = (np.repeat(each, N_HEAD // N_HEAD_KV, axis=1) for each in (k, v))
        n, n_block = len(k), len(q)
        query_at = np.arange(n - n_block, n)[:, None]
        key_at = np.arange(n)[None, :]
        hidden = np.zeros((n_block, n), dtype=bool)
        metadata = self._head.metadata
        if metadata.get("attention.causal", False):
            hidden |= key_at > query_at
        if metadata.get("attention.sliding_window_pattern", [False] * N_LAYERS)[layer]:
            hidden |= query_at - key_at >= metadata["attention.sliding_window"]
        scores = np.einsum("ihd,jhd->hij", q, k) / HEAD_DIM**0.5
        scores[:, hidden] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        result: Array = np.einsum("hij,jhd->ihd", weights, v).reshape(n_block, N_HEAD * HEAD_DIM)
        return result

    def _convolutions(self, name: str, x: Array) -> Any:
        """DFlash 2 mixes a token with those before it in the block, on the way in and out."""
        if f"{name}_conv_base" not in self._w:
            return (lambda y: y,) * 2
        n_groups = self._head.n_embd // GROUP
        dynamic = (x @ self._w[f"{name}_conv_proj.weight"].T).reshape(-1, 2, KERNEL, n_groups)
        weights = np.repeat(dynamic, GROUP, axis=-1) + self._w[f"{name}_conv_base"]

        def side(number: int) -> Any:
            def mixed(y: Array) -> Array:
                result = np.zeros_like(y)
                for tap in range(min(KERNEL, len(y))):
                    result[tap:] += weights[tap:, number, tap] * y[: len(y) - tap]
                return result

            return mixed

        return side(0), side(1)

    def _rms(self, x: Array, weight: str) -> Array:
        scale = np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + EPSILON)
        result: Array = x / scale * self._w[weight]
        return result


def _rotated(x: Array, *, start: int) -> Array:
    """Rotary positions over the two halves of each head, row i at position start + i."""
    n, _, dim = x.shape
    angle = np.arange(start, start + n)[:, None] * ROPE_BASE ** (-np.arange(0, dim, 2) / dim)
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    first, second = x[..., : dim // 2], x[..., dim // 2 :]
    return np.concatenate((first * cos - second * sin, first * sin + second * cos), axis=-1)
