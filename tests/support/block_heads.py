"""Block heads with random weights (DFlash, DSpark, DFlash 2), and the same heads in NumPy.

The reference is written from the papers and the meaning of the tensors: no cache, every block is
computed whole, in float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.head_files import HEAD_DIM, N_FF, N_HEAD, N_HEAD_KV, RandomHead
from support.numpy_layers import Array, attention, gated, rms_norm, rotated_halves
from support.weights import RandomWeights

N_LAYERS = 2
BLOCK = 8
RANK = 12
KERNEL, GROUP, TOP_K = 3, 16, 5
MASK = "tokenizer.ggml.mask_token_id"


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
) -> RandomHead:
    """`markov`: a DSpark head; `selector`: DFlash 2; `n_draft_vocab`: an output matrix of so many
    tokens of its own, else it is the target's.
    """
    random = RandomWeights(seed)
    matrix, norm, normal = random.matrix, random.norm, random.rng.standard_normal
    metadata = {
        "block_count": N_LAYERS,
        "block_size": BLOCK,
        "target_layers": list(layers),
        MASK: mask,
        **metadata,
    }
    heads, heads_kv = N_HEAD * HEAD_DIM, N_HEAD_KV * HEAD_DIM
    tensors: dict[str, NDArray[Any]] = {
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
                tensors[f"{name}_base"] = 0.3 * normal((2, KERNEL, n_embd))
                tensors[f"{name}_proj.weight"] = matrix(wide, n_embd, scale=0.3)
    if n_draft_vocab is not None:
        tensors["output.weight"] = matrix(n_draft_vocab, n_embd, scale=3)
        tensors["d2t"] = random.ids(n_vocab, n_draft_vocab)
    if markov:
        tensors["markov_w1.weight"] = normal((n_vocab, RANK))
        tensors["markov_w2.weight"] = matrix(n_draft_vocab or n_vocab, RANK, scale=3)
    if selector:
        tensors["selector_hidden.weight"] = matrix(RANK, n_embd)
        tensors["selector_predecessor.weight"] = normal((n_vocab, RANK))
        tensors["selector_successor.weight"] = normal((n_vocab, RANK))
        metadata |= {
            "conv_kernel_size": KERNEL,
            "conv_group_size": GROUP,
            "selector_rank": RANK,
            "selector_top_k": TOP_K,
        }
    return RandomHead("dflash", n_embd, n_vocab, tensors, metadata)


class NumpyBlockHead:
    """Rows of a block by the definition of the head."""

    def __init__(
        self,
        head: RandomHead,
        tensors: Mapping[str, Array],
        embeddings: NDArray[np.float32],
    ) -> None:
        """`tensors` as the file has them; `embeddings` (n_vocab, n_embd) are the target's, and its
        output matrix.
        """
        self._metadata = head.metadata
        self._n_vocab = head.n_vocab
        self._d2t = head.tensors.get("d2t")
        self._w = tensors
        self._embeddings = embeddings.astype(np.float64)
        self._mask: int = head.metadata[MASK]
        self._markov = "markov_w1.weight" in tensors
        # Whether the row of the text's last token is the first draft token's.
        self._anchored = self._markov and head.metadata.get("sample_from_anchor", True)

    def rows(self, last: int, features: NDArray[np.float32], k: int) -> Array:
        """Logits of `k` draft tokens after a text, shape (k, n_vocab).

        `last` is its last token, `features` (n - 1, width) are the target's at those before it.
        """
        tokens = [last, *[self._mask] * (k - 1 if self._anchored else k)]
        hidden = self._hidden(tokens, features)
        logits = hidden @ self._w.get("output.weight", self._embeddings).T
        if self._markov:
            previous = last
            for i in range(0 if self._anchored else 1, len(tokens)):
                bias = self._w["markov_w2.weight"] @ self._w["markov_w1.weight"][previous]
                logits[i] += bias
                best = int(logits[i].argmax())
                previous = best if self._d2t is None else int(self._d2t[best])
        if self._d2t is None:
            return logits[-k:]
        result = np.full((k, self._n_vocab), -np.inf)
        result[:, self._d2t] = logits[-k:]
        return result

    def scores(
        self, last: int, features: NDArray[np.float32], k: int
    ) -> list[tuple[NDArray[np.float64], dict[tuple[int, int], float]]]:
        """DFlash 2: for each draft token, the logits whose largest are the candidates, and a score
        for each candidate after each one before it.
        """
        tokens = [last, *[self._mask] * k]
        hidden = self._hidden(tokens, features)
        logits = hidden @ self._embeddings.T
        before, result = [last], []
        for i in range(1, k + 1):
            gate = self._w["selector_hidden.weight"] @ hidden[i]
            best = (-logits[i]).argsort()[:TOP_K].tolist()
            scores = {
                (p, c): float(
                    logits[i, c]
                    + self._w["selector_successor.weight"][c]
                    @ (self._w["selector_predecessor.weight"][p] * gate)
                )
                for p in before
                for c in best
            }
            result.append((logits[i], scores))
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
            q = rotated_halves(self._rms(q, f"{name}.attn_q_norm.weight"), start=n)
            x = x + out(self._attention(i, q, keys, values) @ w[f"{name}.attn_output.weight"].T)
            y = self._rms(x, f"{name}.ffn_norm.weight")
            into, out = self._convolutions(f"{name}.ffn", y)
            y = into(y)
            gate, up = y @ w[f"{name}.ffn_gate.weight"].T, y @ w[f"{name}.ffn_up.weight"].T
            x = x + out(gated(gate, up) @ w[f"{name}.ffn_down.weight"].T)
        return self._rms(x, "output_norm.weight")

    def _keys_and_values(self, name: str, x: Array) -> tuple[Array, Array]:
        k = (x @ self._w[f"{name}.attn_k.weight"].T).reshape(len(x), N_HEAD_KV, HEAD_DIM)
        v = (x @ self._w[f"{name}.attn_v.weight"].T).reshape(len(x), N_HEAD_KV, HEAD_DIM)
        return rotated_halves(self._rms(k, f"{name}.attn_k_norm.weight")), v

    def _attention(self, layer: int, q: Array, k: Array, v: Array) -> Array:
        n, n_block = len(k), len(q)
        query_at = np.arange(n - n_block, n)[:, None]
        key_at = np.arange(n)[None, :]
        hidden = np.zeros((n_block, n), dtype=bool)
        metadata = self._metadata
        if metadata.get("attention.causal", False):
            hidden |= key_at > query_at
        if metadata.get("attention.sliding_window_pattern", [False] * N_LAYERS)[layer]:
            hidden |= query_at - key_at >= metadata["attention.sliding_window"]
        return attention(q, k, v, hidden)

    def _convolutions(self, name: str, x: Array) -> Any:
        """DFlash 2 mixes a token with those before it in the block, on the way in and out."""
        if f"{name}_conv_base" not in self._w:
            return (lambda y: y,) * 2
        n_groups = x.shape[1] // GROUP
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
        return rms_norm(x, self._w[weight])
