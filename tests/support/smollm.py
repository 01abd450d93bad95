"""SmolLM2 with real logits, for tests that need no whole engine."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from specengine.context import Context
from specengine.llama import library
from specengine.llama.model import LlamaModel

TEXT = (
    "The three primary colours are red, yellow and blue. A painter mixes red and yellow to get "
    "orange; yellow and blue make green.\n\ndef reverse(items):\n    return items[::-1]\n\n1. Hanoi"
)


class SmolLM(NamedTuple):
    model: LlamaModel
    context: Context
    tokens: NDArray[np.int32]
    rows: NDArray[np.float32]
    """Logits after each of the last 24 of `tokens`, shape (24, n_vocab)."""

    @property
    def vocab_pointer(self) -> Any:
        return library.load().llama_model_get_vocab(self.model.handle)
