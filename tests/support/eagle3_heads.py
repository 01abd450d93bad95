"""EAGLE-3 heads with random weights, and the same heads in NumPy.

The reference is written from the papers and the meaning of the tensors: rows are computed all at
once, by full causal attention, in float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from support.head_files import HEAD_DIM, N_FF, N_HEAD, N_HEAD_KV, RandomHead
from support.numpy_layers import Array, attention, gated, later, rms_norm, rotated_pairs
from support.weights import RandomWeights


def random_head(
    n_embd: int,
    n_vocab: int,
    *,
    layers: Sequence[int] = (2, 15, 27),
    n_draft_vocab: int = 300,
    norm_before_fc: bool = True,
    norm_before_residual: bool = False,
    seed: int = 3,
) -> RandomHead:
    random = RandomWeights(seed)
    matrix, norm = random.matrix, random.norm
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
    metadata = {
        "block_count": 1,
        "target_layers": list(layers),
        "target_hidden_size": n_embd,
        "norm_before_fc": norm_before_fc,
        "norm_before_residual": norm_before_residual,
    }
    d2t = random.ids(n_vocab, n_draft_vocab)
    return RandomHead("eagle3", n_embd, n_vocab, {**tensors, "d2t": d2t}, metadata)


class NumpyHead:
    """Logits by the definition of the head."""

    def __init__(
        self,
        head: RandomHead,
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
        result[self._head.tensors["d2t"]] = (
            self._rms(states[-1], "output_norm.weight") @ self._w["output.weight"].T
        )
        return result

    def _fuse(self, features: Array) -> Array:
        if self._head.metadata["norm_before_fc"]:
            features = self._rms(features, "enc.output_norm.weight")
        return features @ self._w["fc.weight"].T

    def _layer(self, tokens: Sequence[int], hidden: Array) -> Array:
        """Hidden states of all rows, shape (n, n_embd)."""
        w = self._w
        normed = self._rms(hidden, "blk.0.attn_norm_2.weight")
        embedded = self._rms(self._embeddings[list(tokens)], "blk.0.attn_norm.weight")
        both = np.concatenate((embedded, normed), axis=1)
        residual = normed if self._head.metadata["norm_before_residual"] else hidden
        x = residual + self._attention(both) @ w["blk.0.attn_output.weight"].T
        y = self._rms(x, "blk.0.ffn_norm.weight")
        inner = gated(y @ w["blk.0.ffn_gate.weight"].T, y @ w["blk.0.ffn_up.weight"].T)
        result: Array = x + inner @ w["blk.0.ffn_down.weight"].T
        return result

    def _attention(self, x: Array) -> Array:
        n = len(x)
        q = (x @ self._w["blk.0.attn_q.weight"].T).reshape(n, N_HEAD, HEAD_DIM)
        k = (x @ self._w["blk.0.attn_k.weight"].T).reshape(n, N_HEAD_KV, HEAD_DIM)
        v = (x @ self._w["blk.0.attn_v.weight"].T).reshape(n, N_HEAD_KV, HEAD_DIM)
        return attention(rotated_pairs(q), rotated_pairs(k), v, later(n))

    def _rms(self, x: Array, weight: str) -> Array:
        return rms_norm(x, self._w[weight])
