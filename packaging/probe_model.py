"""Writes engine/specengine/llama/probe.gguf, the tiny random model that the probe decodes.

    python packaging/probe_model.py

One layer whose matrices are quantized in each way that llama.cpp has AMX or repacked kernels
for, in the smallest shapes that those kernels take. The random numbers are the raw output of
PCG64, a stream that numpy promises not to change, so that every run writes the same bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

TARGET = Path(__file__).resolve().parents[1] / "engine/specengine/llama/probe.gguf"

EMBEDDING = 256  # the length of a K-quant block
HEAD = FEED_FORWARD = VOCABULARY = 32  # two AMX tiles of 16 rows
CONTEXT = 256
SCALE = 0.0625  # standard deviation of a weight, about: 1 / sqrt(EMBEDDING)


# Where a block of quantized weights keeps its float16 factors: {first byte: factor / SCALE}. All
# other bytes may have any value; the factors are such that weights have a mean of 0.
FACTORS = {
    Type.Q4_0: {0: 0.22},
    Type.Q4_1: {0: 0.22, 2: -0.22 * 7.5},
    Type.Q8_0: {0: 0.0135},
    Type.Q4_K: {0: 0.0038, 2: 0.0038 * 7.5},
    Type.Q5_K: {0: 0.0019, 2: 0.0019 * 15.5},
    Type.Q6_K: {208: 0.00073},
}

MATRICES = {  # name: (rows, columns, type)
    "token_embd": (VOCABULARY, EMBEDDING, Type.Q8_0),
    "blk.0.attn_q": (HEAD, EMBEDDING, Type.Q4_K),
    "blk.0.attn_k": (HEAD, EMBEDDING, Type.Q5_K),
    "blk.0.attn_v": (HEAD, EMBEDDING, Type.Q6_K),
    "blk.0.attn_output": (EMBEDDING, HEAD, Type.Q4_0),
    "blk.0.ffn_gate": (FEED_FORWARD, EMBEDDING, Type.Q4_0),
    "blk.0.ffn_up": (FEED_FORWARD, EMBEDDING, Type.Q4_1),
    "blk.0.ffn_down": (EMBEDDING, FEED_FORWARD, Type.Q8_0),
    "output": (VOCABULARY, EMBEDDING, Type.Q4_0),
}


def random_matrix(
    stream: np.random.PCG64, rows: int, columns: int, kind: Type
) -> NDArray[np.uint8]:
    """Random blocks of `kind`: uint8 of shape (rows, bytes of a row)."""
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rows * columns // weights
    raw = stream.random_raw(-(-blocks * size // 8)).astype("<u8").view(np.uint8)
    result = raw[: blocks * size].reshape(blocks, size).copy()
    for offset, factor in FACTORS[kind].items():
        value = np.array([factor * SCALE], dtype="<f2").view(np.uint8)
        result[:, offset : offset + 2] = value
    return result.reshape(rows, -1)


def write(path: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("specchat probe")
    writer.add_block_count(1)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(EMBEDDING)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("none")
    stream = np.random.PCG64(20240214)
    for name, (rows, columns, kind) in MATRICES.items():
        matrix = random_matrix(stream, rows, columns, kind)
        writer.add_tensor(f"{name}.weight", matrix, raw_dtype=kind)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(EMBEDDING, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
