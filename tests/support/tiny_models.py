"""Models of a few thousand random weights, small enough to be written and decoded in a test."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

from support.gguf_files import write_out

VOCABULARY = 40
EMBEDDING = 32
FEED_FORWARD = 64
HEAD = 16
CONTEXT = 512


class _Writer(gguf.GGUFWriter):
    """Random matrices from a seed, so that every run writes the same model."""

    def __init__(self, path: Path, architecture: str, n_layers: int) -> None:
        super().__init__(path, architecture)
        self._rng = np.random.default_rng(7)
        self.add_block_count(n_layers)
        self.add_context_length(CONTEXT)
        self.add_embedding_length(EMBEDDING)
        self.add_vocab_size(VOCABULARY)
        self.add_layer_norm_rms_eps(1e-5)
        self.add_tokenizer_model("none")
        self.matrix("token_embd.weight", VOCABULARY, EMBEDDING, scale=1)
        self.matrix("output.weight", VOCABULARY, EMBEDDING, scale=0.5)

    def matrix(self, name: str, *shape: int, scale: float | None = None) -> None:
        """Normal weights; by default such that a layer keeps the size of its input."""
        scale = shape[-1] ** -0.5 if scale is None else scale
        self.add_tensor(name, (scale * self._rng.standard_normal(shape)).astype(np.float32))

    def constant(self, name: str, *shape: int, value: float = 1) -> None:
        self.add_tensor(name, np.full(shape, value, dtype=np.float32))


def write_lfm2(path: Path) -> Path:
    """Convolutions and attention: a hybrid whose last states llama.cpp keeps as snapshots."""
    writer = _Writer(path, "lfm2", n_layers=3)
    heads = [0, 1, 0]  # a layer without heads is a convolution
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(2)
    writer.add_head_count_kv(heads)
    writer.add_rope_dimension_count(HEAD)
    writer.add_shortconv_l_cache(3)
    writer.constant("token_embd_norm.weight", EMBEDDING)
    for i, n_heads in enumerate(heads):
        writer.constant(f"blk.{i}.attn_norm.weight", EMBEDDING)
        writer.constant(f"blk.{i}.ffn_norm.weight", EMBEDDING)
        writer.matrix(f"blk.{i}.ffn_gate.weight", FEED_FORWARD, EMBEDDING)
        writer.matrix(f"blk.{i}.ffn_up.weight", FEED_FORWARD, EMBEDDING)
        writer.matrix(f"blk.{i}.ffn_down.weight", EMBEDDING, FEED_FORWARD)
        if n_heads:
            writer.constant(f"blk.{i}.attn_q_norm.weight", HEAD)
            writer.constant(f"blk.{i}.attn_k_norm.weight", HEAD)
            writer.matrix(f"blk.{i}.attn_q.weight", 2 * HEAD, EMBEDDING)
            writer.matrix(f"blk.{i}.attn_k.weight", HEAD, EMBEDDING)
            writer.matrix(f"blk.{i}.attn_v.weight", HEAD, EMBEDDING)
            writer.matrix(f"blk.{i}.attn_output.weight", EMBEDDING, 2 * HEAD)
        else:
            writer.matrix(f"blk.{i}.shortconv.conv.weight", EMBEDDING, 3, scale=1)
            writer.matrix(f"blk.{i}.shortconv.in_proj.weight", 3 * EMBEDDING, EMBEDDING)
            writer.matrix(f"blk.{i}.shortconv.out_proj.weight", EMBEDDING, EMBEDDING)
    return write_out(writer, path)


def write_mamba(path: Path) -> Path:
    """A recurrent state that nothing but a copy brings back."""
    inner, state, rank, width = 2 * EMBEDDING, 8, 4, 4
    writer = _Writer(path, "mamba", n_layers=2)
    writer.add_ssm_conv_kernel(width)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    writer.constant("output_norm.weight", EMBEDDING)
    for i in range(2):
        writer.constant(f"blk.{i}.attn_norm.weight", EMBEDDING)
        writer.matrix(f"blk.{i}.ssm_in.weight", 2 * inner, EMBEDDING)
        writer.matrix(f"blk.{i}.ssm_conv1d.weight", inner, width, scale=0.5)
        writer.constant(f"blk.{i}.ssm_conv1d.bias", inner, value=0)
        writer.matrix(f"blk.{i}.ssm_x.weight", rank + 2 * state, inner)
        writer.matrix(f"blk.{i}.ssm_dt.weight", inner, rank)
        writer.constant(f"blk.{i}.ssm_dt.bias", inner, value=-1)
        writer.constant(f"blk.{i}.ssm_a", inner, state, value=-0.3)
        writer.constant(f"blk.{i}.ssm_d", inner)
        writer.matrix(f"blk.{i}.ssm_out.weight", EMBEDDING, inner)
    return write_out(writer, path)


def write_gemma3(path: Path, window: int = 8) -> Path:
    """Attention to the last `window` tokens in one layer, to all of them in the other."""
    writer = _Writer(path, "gemma3", n_layers=2)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_sliding_window(window)
    writer.add_sliding_window_pattern([True, False])
    writer.constant("output_norm.weight", EMBEDDING)
    for i in range(2):
        for norm in ("attn", "post_attention", "ffn", "post_ffw"):
            writer.constant(f"blk.{i}.{norm}_norm.weight", EMBEDDING)
        for norm in ("attn_q", "attn_k"):
            writer.constant(f"blk.{i}.{norm}_norm.weight", HEAD)
        writer.matrix(f"blk.{i}.attn_q.weight", 2 * HEAD, EMBEDDING)
        writer.matrix(f"blk.{i}.attn_k.weight", HEAD, EMBEDDING)
        writer.matrix(f"blk.{i}.attn_v.weight", HEAD, EMBEDDING)
        writer.matrix(f"blk.{i}.attn_output.weight", EMBEDDING, 2 * HEAD)
        writer.matrix(f"blk.{i}.ffn_gate.weight", FEED_FORWARD, EMBEDDING)
        writer.matrix(f"blk.{i}.ffn_up.weight", FEED_FORWARD, EMBEDDING)
        writer.matrix(f"blk.{i}.ffn_down.weight", EMBEDDING, FEED_FORWARD)
    return write_out(writer, path)


def write_t5(path: Path) -> Path:
    """An encoder and a decoder: it answers a text that was encoded, and goes on with none."""
    writer = _Writer(path, "t5", n_layers=1)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(2)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_relative_attn_buckets_count(8)
    writer.add_decoder_start_token_id(0)
    for side in ("enc", "dec"):
        writer.constant(f"{side}.output_norm.weight", EMBEDDING)
        block = f"{side}.blk.0"
        attentions = ("attn", "cross_attn") if side == "dec" else ("attn",)
        for attention in attentions:
            writer.constant(f"{block}.{attention}_norm.weight", EMBEDDING)
            for part in "qkvo":
                writer.matrix(f"{block}.{attention}_{part}.weight", EMBEDDING, EMBEDDING)
        writer.matrix(f"{block}.attn_rel_b.weight", 8, 2)
        writer.constant(f"{block}.ffn_norm.weight", EMBEDDING)
        writer.matrix(f"{block}.ffn_up.weight", FEED_FORWARD, EMBEDDING)
        writer.matrix(f"{block}.ffn_down.weight", EMBEDDING, FEED_FORWARD)
    return write_out(writer, path)


WRITERS = {"lfm2": write_lfm2, "mamba": write_mamba}
