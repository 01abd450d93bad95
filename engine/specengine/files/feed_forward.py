"""Feed-forward tensors that llama.cpp does not miss before it computes with them.

Of most architectures it refuses a file that lacks some. In those below every layer is either dense
or has experts, so that all of them may be absent to llama.cpp, which ends the process at a layer
with a part of them, and computes nonsense at one with none.
"""

from __future__ import annotations

from specengine.files.gguf import GGUF

ROUTER = "ffn_gate_inp"
DENSE = ("ffn_gate", "ffn_up", "ffn_down")
_EXPERTS = ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
_JOINED = ("ffn_gate_up_exps", "ffn_down_exps")  # as newer files may have them

# By the loaders and graphs in llama.cpp's src/models.
_UNCHECKED = ("hy_v3", "mimo2", "step35")


def missing_feed_forward(gguf: GGUF) -> str | None:
    """The first such tensor that a layer lacks; None where llama.cpp checks, or all are there.

    Layers that are heads need not be in the file.
    """
    if gguf.architecture not in _UNCHECKED:
        return None
    names = {tensor.name for tensor in gguf.tensors}
    for layer in range(gguf.n_layer - gguf.number("nextn_predict_layers", 0)):
        needed: tuple[str, ...] = DENSE
        if f"blk.{layer}.{ROUTER}.weight" in names:
            needed = _JOINED if f"blk.{layer}.{_JOINED[0]}.weight" in names else _EXPERTS
        for part in needed:
            if (name := f"blk.{layer}.{part}.weight") not in names:
                return name
    return None
