"""The inputs of a target's layers, recorded in every pass: a `FeatureSource`.

llama.cpp ends the process where a layer does not exist or an architecture's graph records none:
`files.head_files.check_layers` tells beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from specengine.cache.features import Features
from specengine.llama import extensions


class LayerInputs:
    """Concatenated inputs of some layers, for each token of a pass."""

    def __init__(self, context: Any, layers: Sequence[int], n_embd: int) -> None:
        """Record from now on in `context`, llama.cpp's of a model that
        `files.head_files.check_layers` passed.

        A row is len(layers) * n_embd floats, in the order of `layers`. Raises BackendError where
        this build of llama.cpp cannot.
        """
        self._context = context
        self._layers = list(layers)
        self._n_embd = n_embd
        self._get = extensions.function("llama_get_embeddings_layer_inp")
        enable = extensions.function("llama_set_embeddings_layer_inp")
        for layer in self._layers:
            enable(context, layer, True)

    @property
    def name(self) -> str:
        return f"inputs of layers {self._layers}"

    @property
    def width(self) -> int:
        return len(self._layers) * self._n_embd

    def read(self, n_tokens: int, into: Features) -> None:
        shape = (n_tokens, self._n_embd)
        for i, layer in enumerate(self._layers):
            rows = np.ctypeslib.as_array(self._get(self._context, layer), shape=shape)
            into[:, i * self._n_embd : (i + 1) * self._n_embd] = rows
