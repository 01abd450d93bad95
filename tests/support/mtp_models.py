"""Small random models with heads for multi-token prediction, and such heads in NumPy.

`step35` with dense layers: attention over all tokens, heads that each belong to one draft token.
`qwen35`: recurrent layers between those with attention, and one head, which repeats itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from support.gguf_files import write_out
from support.numpy_layers import (
    EPSILON,
    ROPE_BASE,
    Array,
    attention,
    gated,
    later,
    rms_norm,
    rotated_halves,
)
from support.weights import RandomWeights, dequantized

N_VOCAB, N_EMBD, N_FF = 40, 32, 64
N_HEAD, N_HEAD_KV, HEAD_DIM = 2, 1, 16
ROTATED = HEAD_DIM // 2  # of each key in layers that see everything
N_TRUNK = 2
WINDOW = 512


def write_step35(
    path: Path,
    n_heads: int,
    vocabulary: Sequence[str] = (),
    *,
    leave_out: Sequence[str] = (),
    architecture: str = "step35",
) -> Path:
    """`vocabulary`: the texts of the tokens; none: a tokenizer without any."""
    writer = _writer(path, architecture, N_TRUNK, n_heads, vocabulary)
    writer.add_expert_feed_forward_length(N_FF)
    writer.add_sliding_window(WINDOW)
    writer.add_sliding_window_pattern([True] + [False] * (N_TRUNK + n_heads - 1))
    for name, values in _tensors(n_heads).items():
        if name not in leave_out:
            writer.add_tensor(name, values)
    return write_out(writer, path)


def write_qwen35(
    path: Path,
    vocabulary: Sequence[str],
    *,
    leave_out: Sequence[str] = (),
    inner_size: int | None = None,
) -> Path:
    """Three layers with a recurrent state, one with attention, one head.

    `inner_size`: of the state, as the header says; that it is wrong is found by a pass alone.
    """
    state, groups, width, n_trunk = 16, 2, 4, 4
    writer = _writer(path, "qwen35", n_trunk, 1, vocabulary)
    writer.add_array("qwen35.rope.dimension_sections", [3, 3, 2, 0])
    writer.add_uint32("qwen35.full_attention_interval", n_trunk)
    writer.add_ssm_conv_kernel(width)
    writer.add_ssm_inner_size(inner_size or state * groups)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(groups)
    writer.add_ssm_group_count(groups)
    random = RandomWeights(3)

    def add(name: str, values: NDArray[np.float64]) -> None:
        if name not in leave_out:
            writer.add_tensor(name, values.astype(np.float32))

    def matrix(name: str, rows: int, columns: int, scale: float = 1) -> None:
        add(f"{name}.weight", random.matrix(rows, columns, scale))

    matrix("token_embd", N_VOCAB, N_EMBD, scale=6)
    matrix("output", N_VOCAB, N_EMBD, scale=3)
    add("output_norm.weight", np.ones(N_EMBD))
    for layer in range(n_trunk + 1):
        block = f"blk.{layer}"
        add(f"{block}.attn_norm.weight", np.ones(N_EMBD))
        add(f"{block}.post_attention_norm.weight", np.ones(N_EMBD))
        if layer >= n_trunk - 1:
            matrix(f"{block}.attn_q", 2 * N_HEAD * HEAD_DIM, N_EMBD)  # with a gate
            matrix(f"{block}.attn_k", N_HEAD_KV * HEAD_DIM, N_EMBD)
            matrix(f"{block}.attn_v", N_HEAD_KV * HEAD_DIM, N_EMBD)
            matrix(f"{block}.attn_output", N_EMBD, N_HEAD * HEAD_DIM)
            add(f"{block}.attn_q_norm.weight", np.ones(HEAD_DIM))
            add(f"{block}.attn_k_norm.weight", np.ones(HEAD_DIM))
        else:
            matrix(f"{block}.attn_qkv", 3 * state * groups, N_EMBD)
            matrix(f"{block}.attn_gate", state * groups, N_EMBD)
            matrix(f"{block}.ssm_conv1d", 3 * state * groups, width)
            matrix(f"{block}.ssm_beta", groups, N_EMBD)
            matrix(f"{block}.ssm_alpha", groups, N_EMBD)
            matrix(f"{block}.ssm_out", N_EMBD, state * groups)
            add(f"{block}.ssm_dt.bias", np.full(groups, -1.0))
            add(f"{block}.ssm_a", np.full(groups, -0.3))
            add(f"{block}.ssm_norm.weight", np.ones(state))
        matrix(f"{block}.ffn_gate", N_FF, N_EMBD)
        matrix(f"{block}.ffn_up", N_FF, N_EMBD)
        matrix(f"{block}.ffn_down", N_EMBD, N_FF)
    matrix(f"blk.{n_trunk}.nextn.eh_proj", N_EMBD, 2 * N_EMBD)
    add(f"blk.{n_trunk}.nextn.enorm.weight", np.ones(N_EMBD))
    add(f"blk.{n_trunk}.nextn.hnorm.weight", np.ones(N_EMBD))
    return write_out(writer, path)


def _writer(
    path: Path, architecture: str, n_trunk: int, n_heads: int, vocabulary: Sequence[str]
) -> gguf.GGUFWriter:
    """With the entries that both architectures have."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(n_trunk + n_heads)
    writer.add_nextn_predict_layers(n_heads)
    writer.add_context_length(512)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(N_FF)
    writer.add_head_count(N_HEAD)
    writer.add_head_count_kv(N_HEAD_KV)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_vocab_size(N_VOCAB)
    if not vocabulary:
        writer.add_tokenizer_model("none")
        return writer
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(list(vocabulary))
    writer.add_token_types([1] * len(vocabulary))
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(len(vocabulary) - 1)
    writer.add_chat_template("{{ messages[-1].content }}")
    return writer


def _tensors(n_heads: int) -> dict[str, NDArray[np.float32]]:
    random = RandomWeights(21)
    tensors: dict[str, NDArray[np.float32]] = {}

    def matrix(name: str, rows: int, columns: int, scale: float = 1) -> None:
        tensors[name] = random.matrix(rows, columns, scale).astype(np.float32)

    def norm(name: str, n: int = N_EMBD) -> None:
        tensors[name] = random.norm(n).astype(np.float32)

    matrix("token_embd.weight", N_VOCAB, N_EMBD, scale=6)
    matrix("output.weight", N_VOCAB, N_EMBD, scale=3)
    norm("output_norm.weight")
    for layer in range(N_TRUNK + n_heads):
        block = f"blk.{layer}"
        norm(f"{block}.attn_norm.weight")
        norm(f"{block}.ffn_norm.weight")
        matrix(f"{block}.attn_q.weight", N_HEAD * HEAD_DIM, N_EMBD)
        matrix(f"{block}.attn_k.weight", N_HEAD_KV * HEAD_DIM, N_EMBD)
        matrix(f"{block}.attn_v.weight", N_HEAD_KV * HEAD_DIM, N_EMBD)
        matrix(f"{block}.attn_output.weight", N_EMBD, N_HEAD * HEAD_DIM)
        matrix(f"{block}.ffn_gate.weight", N_FF, N_EMBD)
        matrix(f"{block}.ffn_up.weight", N_FF, N_EMBD)
        matrix(f"{block}.ffn_down.weight", N_EMBD, N_FF)
        if layer >= N_TRUNK:
            matrix(f"{block}.nextn.eh_proj.weight", N_EMBD, 2 * N_EMBD)
            norm(f"{block}.nextn.enorm.weight")
            norm(f"{block}.nextn.hnorm.weight")
    return tensors


@dataclass
class NumpyHeads:
    """Logits by the definition of the heads, all rows at once, in float64."""

    tensors: Mapping[str, Array]
    n_heads: int

    @classmethod
    def of(cls, path: Path, n_heads: int) -> NumpyHeads:
        return cls(dequantized(path), n_heads)

    def logits(
        self, tokens: Sequence[int], features: NDArray[np.float32], drafted: int = 0
    ) -> Array:
        """After `tokens`, of which the last `drafted` are a draft; `features` are the target's
        hidden states at those that are none.
        """
        verified = len(tokens) - 1 - drafted
        hidden = features[:verified].astype(np.float64)
        states = self._layer(0, tokens[1 : verified + 1], hidden)
        for step in range(1, drafted + 1):
            hidden = np.concatenate((hidden, states[-1:]))
            head = step if self.n_heads > 1 else 0
            states = self._layer(head, tokens[1 : verified + 1 + step], hidden)
        result: Array = self._rms(states[-1], "output_norm") @ self.tensors["output.weight"].T
        return result

    def _layer(self, head: int, tokens: Sequence[int], hidden: Array) -> Array:
        block = f"blk.{N_TRUNK + head}"
        embedded = self.tensors["token_embd.weight"][list(tokens)]
        both = np.concatenate(
            (
                self._rms(embedded, f"{block}.nextn.enorm"),
                self._rms(hidden, f"{block}.nextn.hnorm"),
            ),
            axis=1,
        )
        x = self._through(both, f"{block}.nextn.eh_proj")
        attended = self._attention(block, self._rms(x, f"{block}.attn_norm"))
        x = x + self._through(attended, f"{block}.attn_output")
        y = self._rms(x, f"{block}.ffn_norm")
        gate = self._through(y, f"{block}.ffn_gate")
        up = self._through(y, f"{block}.ffn_up")
        return x + self._through(gated(gate, up), f"{block}.ffn_down")

    def _attention(self, block: str, x: Array) -> Array:
        n = len(x)
        q = self._through(x, f"{block}.attn_q").reshape(n, N_HEAD, HEAD_DIM)
        k = self._through(x, f"{block}.attn_k").reshape(n, N_HEAD_KV, HEAD_DIM)
        v = self._through(x, f"{block}.attn_v").reshape(n, N_HEAD_KV, HEAD_DIM)
        q, k = (rotated_halves(each, width=ROTATED) for each in (q, k))
        return attention(q, k, v, later(n))

    def _through(self, x: Array, name: str) -> Array:
        result: Array = x @ self.tensors[f"{name}.weight"].T
        return result

    def _rms(self, x: Array, name: str) -> Array:
        return rms_norm(x, self.tensors[f"{name}.weight"])
