"""What of a model's header makes llama.cpp end the process instead of refusing the file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from specengine.model_files.feed_forward import missing_feed_forward

if TYPE_CHECKING:
    from specengine.model_files.gguf import GGUF

# llama.cpp's own limits and names.
_MAX_LAYERS = 512
_MAX_EXPERTS = 1024
_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")


def fatal_setting(gguf: GGUF) -> str | None:
    """What is wrong, in a few words; None where nothing is."""
    if not 0 < gguf.n_layer <= _MAX_LAYERS:
        return f"it has {gguf.n_layer} layers"
    heads = gguf.number("nextn_predict_layers", 0)
    if heads > gguf.n_layer:
        return f"{heads} of its {gguf.n_layer} layers are heads"
    if cause := _experts(gguf):
        return cause
    scaling = gguf.metadata.get(f"{gguf.architecture}.rope.scaling.type", "none")
    if scaling not in _ROPE_SCALINGS:
        return f"{gguf.architecture}.rope.scaling.type is {scaling}"
    for key, value in gguf.metadata.items():
        if key.endswith("_epsilon") and isinstance(value, float) and not 0 <= value < math.inf:
            return f"{key} is {value}"
    if missing := missing_feed_forward(gguf):
        return f"it lacks {missing}"
    return None


def _experts(gguf: GGUF) -> str | None:
    count = gguf.number("expert_count", 0)
    used = max(gguf.per_layer("expert_used_count", 0), default=0)
    if not used <= count <= _MAX_EXPERTS or (count and not used):
        return f"it uses {used} of {count} experts"
    groups, used = gguf.number("expert_group_count", 0), gguf.number("expert_group_used_count", 0)
    if groups and (groups >= count or (groups > 1 and not (count % groups == 0 < used < groups))):
        return f"it uses {used} of {groups} groups of its {count} experts"
    return None
