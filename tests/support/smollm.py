"""SmolLM2 with real logits and hidden states, for tests that need no whole engine."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from specengine.cache.context import Context
from specengine.llama import library
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel

N_EMBD, N_VOCAB = 576, 49152
TEXT = (
    "The three primary colours are red, yellow and blue. A painter mixes red and yellow to get "
    "orange; yellow and blue make green.\n\ndef reverse(items):\n    return items[::-1]\n\n1. Hanoi"
)
RECORDED = (2, 15, 27)
"""The layers whose inputs are recorded where a head reads them."""
UNENDING = {0: -1e6, 2: -1e6, 4: -1e6}
"""A logit bias on its end tokens: its texts end where a test says, whatever the CPU makes of it."""


class SmolLM(NamedTuple):
    model: LlamaModel
    context: Context
    tokens: NDArray[np.int32]
    rows: NDArray[np.float32]
    """Logits after each of the last 24 of `tokens`, shape (24, n_vocab)."""

    @property
    def vocab_pointer(self) -> Any:
        return library.load().llama_model_get_vocab(self.model.handle)


class RecordedSmolLM(NamedTuple):
    context: Context
    """Records the inputs of the layers RECORDED."""
    cache: LlamaKVCache
    embeddings: NDArray[np.float32]
    """Of all tokens, shape (n_vocab, n_embd)."""
