"""The process that the probe risks: decodes `probe.gguf` and prints the logits.

    python -m specengine.llama.probe_child

prints one JSON line for each way of loading that it survives, `plain` first, then `extra`: with
the extra buffer types, so that weights are repacked for AMX and other fast kernels.
"""

from __future__ import annotations

import ctypes
import json
import sys
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specengine.core.cancel import AbortFlag
from specengine.core.errors import SpecEngineError
from specengine.core.tokens import as_tokens
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel

if sys.platform != "win32":
    import resource

# Token ids, each its own position. A wide pass and one over a single token take different kernels.
PASSES = (list(range(31)), [31])


def main() -> None:
    die_quietly()
    with resources.as_file(resources.files("specengine.llama") / "probe.gguf") as path:
        for stage, extra in (("plain", False), ("extra", True)):
            logits = decode(path, use_extra_bufts=extra)
            print(json.dumps({"stage": stage, "logits": logits.ravel().tolist()}), flush=True)


def die_quietly() -> None:
    """No core file and no window of the system where this process dies, as it may."""
    if sys.platform == "win32":
        ctypes.windll.kernel32.SetErrorMode(0x0001 | 0x0002)
    else:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def decode(path: Path, *, use_extra_bufts: bool) -> NDArray[np.float32]:
    """Logits after each of PASSES, of shape (passes, n_vocab). No GPU takes part: its memory may be
    full, and its driver is not on trial.
    """
    with (
        LlamaModel(path, use_extra_bufts=use_extra_bufts) as model,
        LlamaKVCache(model, n_ctx=256, n_threads=2, abort=AbortFlag()) as cache,
    ):
        rows = []
        for tokens in PASSES:
            last = slice(len(tokens) - 1, len(tokens))
            rows.append(cache.decode(as_tokens(tokens), tokens[0], last).copy())
    return np.concatenate(rows)


if __name__ == "__main__":
    try:
        main()
    except SpecEngineError as error:
        sys.exit(str(error))
