"""What of a model's header makes llama.cpp end the process instead of refusing the file."""

from __future__ import annotations

import math

from specengine.files.fatal_vocabulary import fatal_vocabulary
from specengine.files.feed_forward import missing_feed_forward
from specengine.files.gguf import GGUF, MAX_LAYERS
from specengine.files.recurrent_layers import missing_beside_recurrence
from specengine.files.shown import shown

_MAX_EXPERTS = 1024
_MAX_CONTEXT = (1 << 31) - 1  # it hands it on as a signed number
_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")
_OF_EXPERTS = ("bailingmoe2", "glm4moe", "grovemoe", "smallthinker")
_OF_TWO_HALVES = ("granitehybrid", "jamba")
_WITH_PART_OF_KEYS_ROTATED = ("deepseek2", "hy_v4")


def fatal_setting(gguf: GGUF) -> str | None:
    """What is wrong, in a few words; None where nothing is."""
    if not 0 < gguf.n_layer <= MAX_LAYERS:
        return f"it has {gguf.n_layer} layers"
    heads = gguf.number("nextn_predict_layers", 0)
    if not 0 <= heads < gguf.n_layer:
        return f"{heads} of its {gguf.n_layer} layers are heads"
    if not 0 < gguf.n_ctx_train <= _MAX_CONTEXT:
        return f"it was trained for a context of {gguf.n_ctx_train} tokens"
    if cause := _experts(gguf) or _sizes(gguf):
        return cause
    scaling = gguf.metadata.get(f"{gguf.architecture}.rope.scaling.type", "none")
    if scaling not in _ROPE_SCALINGS:
        return f"its rope.scaling.type is {shown(str(scaling))}"
    for key, value in gguf.metadata.items():
        if key.endswith("_epsilon") and isinstance(value, float) and not 0 <= value < math.inf:
            return f"{shown(key)} is {value}"
    if missing := missing_feed_forward(gguf) or missing_beside_recurrence(gguf):
        return f"it lacks {missing}"
    return fatal_vocabulary(gguf)


def _sizes(gguf: GGUF) -> str | None:
    attends = any(gguf.per_layer("attention.head_count", 0))
    turned = gguf.number("rope.dimension_count", 2)
    if attends and (turned < 2 or turned % 2):  # with none llama.cpp turns for ever
        return f"its rope.dimension_count is {turned}"
    inner, width = gguf.number("ssm.inner_size", 0), gguf.n_embd
    if gguf.architecture in _OF_TWO_HALVES and inner != 2 * width:
        return f"its ssm.inner_size is {inner}, with embeddings of {width} numbers"
    if gguf.architecture in _WITH_PART_OF_KEYS_ROTATED:
        n_head = max(gguf.per_layer("attention.head_count", 1), default=1)
        key = gguf.number("attention.key_length", width // max(n_head, 1))
        rotated = gguf.number("rope.dimension_count", key)
        if (key := gguf.number("attention.key_length_mla", 0) or key) <= rotated:
            return f"its keys have {key} numbers, {rotated} of them rotated"
    return None


def _experts(gguf: GGUF) -> str | None:
    count = gguf.number("expert_count", 0)
    if gguf.architecture in _OF_EXPERTS and count < 1:
        return f"it has {count} experts"
    used = max(gguf.per_layer("expert_used_count", 0), default=0)
    if not used <= count <= _MAX_EXPERTS or (count and not used):
        return f"it uses {used} of {count} experts"
    groups, used = gguf.number("expert_group_count", 0), gguf.number("expert_group_used_count", 0)
    if groups and (groups >= count or (groups > 1 and not (count % groups == 0 < used < groups))):
        return f"it uses {used} of {groups} groups of its {count} experts"
    return None
