"""The inputs of a target's layers, recorded in every pass: a `FeatureSource`.

llama.cpp ends the process where a layer does not exist or an architecture's graph records none, so
both are checked before anything is asked of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from specengine.errors import ModelFileError
from specengine.features import Features
from specengine.gguf import GGUF
from specengine.llama import extensions

# Whose graphs in llama.cpp's src/models note the input of every layer, as wide as the embedding.
ARCHITECTURES = frozenset(
    (
        "bailingmoe3",
        "gemma4",
        "gpt-oss",
        "hunyuan-dense",
        "hunyuan_vl",
        "lfm2",
        "lfm2moe",
        "llama",
        "mimo2",
        "minimax-m2",
        "muse-glimmer",
        "nanbeige",
        "nemotron_h",
        "nemotron_h_moe",
        "qwen3",
        "qwen35",
        "qwen35moe",
        "qwen3moe",
        "qwen3next",
    )
)


def check_layers(target: GGUF, layers: Sequence[int]) -> None:
    """Raises ModelFileError where the inputs of `layers` cannot be recorded of this model."""
    if target.architecture not in ARCHITECTURES:
        raise ModelFileError(
            f"{target.path.name} is of the architecture {target.architecture!r}, whose layers "
            "llama.cpp does not show to a head"
        )
    n_layers = target.n_layer - target.number("nextn_predict_layers", 0)
    for layer in layers:
        if not 0 <= layer < n_layers:
            raise ModelFileError(
                f"the head reads layer {layer} of its target, but {target.path.name} has "
                f"layers 0 to {n_layers - 1}: it belongs to another model"
            )


class LayerInputs:
    """Concatenated inputs of some layers, for each token of a pass."""

    def __init__(self, context: Any, layers: Sequence[int], n_embd: int) -> None:
        """Record from now on in `context`, a llama.cpp context whose model `check_layers` passed.

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
    def width(self) -> int:
        return len(self._layers) * self._n_embd

    def read(self, n_tokens: int, into: Features) -> None:
        shape = (n_tokens, self._n_embd)
        for i, layer in enumerate(self._layers):
            rows = np.ctypeslib.as_array(self._get(self._context, layer), shape=shape)
            into[:, i * self._n_embd : (i + 1) * self._n_embd] = rows
