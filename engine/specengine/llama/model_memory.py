"""What a model takes of memory while it works, layer by layer: from its header, before loading."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from specengine.cache.costs import WIDEST
from specengine.files.gguf import GGUF
from specengine.files.head_files import feature_bytes, is_head

_CACHE_BYTES = 2  # keys and values are kept as float16
_COMPUTE_BYTES = 4  # activations are float32
_MASK_BYTES = 2  # of the attention mask as flash attention takes it
_BATCH_ROWS = 512  # rows that llama.cpp evaluates at once
_SPARE_CELLS = 320  # the engine's own, and llama.cpp's rounding up to 256
_LAYER = re.compile(r"blk\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes. What may lie on a GPU are the layers, each with its part of the KV cache, and the
    output: the matrix from the last layer to the vocabulary.
    """

    host: int
    """Bytes that stay in main memory: the token embedding, the file's header, a head's features."""
    layers: tuple[int, ...]
    """Bytes of the weights of each layer."""
    output: int
    kv_layers: tuple[int, ...]
    """Bytes of the KV cache of each layer."""
    compute: int
    """Bytes of llama.cpp's compute buffer with flash attention off, as on CPUs."""
    device_compute: int
    """The same on each GPU that has a layer."""

    @property
    def units(self) -> tuple[int, ...]:
        """What each layer takes where it is computed, then the output."""
        layers = zip(self.layers, self.kv_layers, strict=True)
        return (*(weights + cache for weights, cache in layers), self.output)

    @property
    def weights(self) -> int:
        return self.host + sum(self.layers) + self.output

    @property
    def kv_cache(self) -> int:
        return sum(self.kv_layers)

    @property
    def total(self) -> int:
        """Of main memory, where no GPU takes a part."""
        return self.weights + self.kv_cache + self.compute


def model_memory(
    gguf: GGUF, n_ctx: int, sequences: int = 1, *, flash_attention: bool = True
) -> ModelMemory:
    """What `gguf` takes with a context of `n_ctx` tokens for each of `sequences`.

    `flash_attention`: whether GPUs compute with it.

    The compute buffer is the attention scores of one batch (`n_head` x rows x n_ctx, and the
    mask) besides its widest layers, and the logits; flash attention keeps no scores. Measured
    against llama.cpp it is never too small and at most a few tens of megabytes too large.
    """
    n_ctx = min(n_ctx, gguf.n_ctx_train or n_ctx) + _SPARE_CELLS
    n_head = max(gguf.per_layer("attention.head_count", 1), default=1)
    head_dim = gguf.n_embd // max(n_head, 1)
    key_and_value = gguf.number("attention.key_length", head_dim) + gguf.number(
        "attention.value_length", head_dim
    )
    cell = sequences * key_and_value * n_ctx * _CACHE_BYTES
    n_head_kv = gguf.per_layer("attention.head_count_kv", n_head)
    n_ff = max(gguf.per_layer("feed_forward_length", 4 * gguf.n_embd), default=0)
    scores = (n_head + 1) * n_ctx + 2 * n_ff + 6 * gguf.n_embd
    no_scores = 2 * n_ff + 7 * gguf.n_embd
    weights = _weights(gguf)
    compute = scores * _BATCH_ROWS * _COMPUTE_BYTES
    logits = WIDEST * gguf.n_vocab * _COMPUTE_BYTES
    features = feature_bytes(gguf, n_ctx) if is_head(gguf) else 0
    flash = no_scores * _BATCH_ROWS * _COMPUTE_BYTES + n_ctx * _BATCH_ROWS * _MASK_BYTES
    return ModelMemory(
        host=gguf.file_size - sum(weights.layers) - weights.own_output + features,
        layers=weights.layers,
        output=weights.output,
        kv_layers=tuple(heads * cell for heads in _padded(n_head_kv, gguf.n_layer)),
        compute=compute,
        device_compute=(flash if flash_attention else compute) + logits,
    )


@dataclass(frozen=True, slots=True)
class _Weights:
    layers: tuple[int, ...]
    own_output: int
    """Of the output matrix in the file; 0 where it has none."""
    embedding: int

    @property
    def output(self) -> int:
        """Without a matrix of its own it is the embedding, of which llama.cpp makes a copy."""
        return self.own_output or self.embedding


def _weights(gguf: GGUF) -> _Weights:
    layers = [0] * gguf.n_layer
    named = {"output.weight": 0, "token_embd.weight": 0}
    for tensor in gguf.tensors:
        size = tensor.nbytes or 0
        if tensor.name in named:
            named[tensor.name] = size
        elif (layer := _LAYER.match(tensor.name)) and int(layer[1]) < gguf.n_layer:
            layers[int(layer[1])] += size
    return _Weights(tuple(layers), named["output.weight"], named["token_embd.weight"])


def _padded(numbers: Sequence[int], length: int) -> list[int]:
    """As many numbers as there are layers, whatever a damaged header says."""
    return [*numbers[:length], *[0] * (length - len(numbers))]
