"""The process that the probe risks: decodes `probe.gguf` and prints the logits.

    python -m specengine.llama.probe_child

prints one JSON line for each way of loading that it survives, `plain` first, then `extra`: with
the extra buffer types, so that weights are repacked for AMX and other fast kernels.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from importlib import resources
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from specengine.core.errors import BackendError
from specengine.llama import library
from specengine.llama.backends import device_list

if sys.platform != "win32":
    import resource

# A wide pass and a pass over one token take different kernels.
PASSES = (list(range(31)), [31])


def main() -> None:
    die_quietly()
    llama = library.load()
    with resources.as_file(resources.files("specengine.llama") / "probe.gguf") as path:
        for stage, extra in (("plain", False), ("extra", True)):
            logits = decode(llama, path, use_extra_bufts=extra)
            print(json.dumps({"stage": stage, "logits": logits.ravel().tolist()}), flush=True)


def die_quietly() -> None:
    """No core file and no window of the system where this process dies, as it may."""
    if sys.platform == "win32":
        ctypes.windll.kernel32.SetErrorMode(0x0001 | 0x0002)
    else:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def decode(llama: ModuleType, path: Path, *, use_extra_bufts: bool) -> NDArray[np.float32]:
    """Logits after each of PASSES, of shape (passes, n_vocab)."""
    model_params = llama.llama_model_default_params()
    model_params.use_extra_bufts = use_extra_bufts
    no_gpu = device_list(llama, [])  # a GPU's memory may be full, and its driver is not on trial
    model_params.devices = ctypes.cast(no_gpu, ctypes.c_void_p)
    model = llama.llama_model_load_from_file(os.fsencode(path), model_params)
    if not model:
        raise BackendError(f"llama.cpp cannot load {path}: {library.last_error()}")
    context_params = llama.llama_context_default_params()
    context_params.n_ctx = context_params.n_batch = 256
    context_params.n_threads = context_params.n_threads_batch = 2
    context = llama.llama_init_from_model(model, context_params)
    if not context:
        raise BackendError(f"llama.cpp cannot make a context: {library.last_error()}")
    n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    rows = []
    for tokens in PASSES:
        array = (llama.llama_token * len(tokens))(*tokens)
        status = llama.llama_decode(context, llama.llama_batch_get_one(array, len(tokens)))
        if status:
            raise BackendError(f"llama_decode returned {status}: {library.last_error()}")
        row = llama.llama_get_logits_ith(context, -1)
        rows.append(np.ctypeslib.as_array(row, shape=(n_vocab,)).copy())
    llama.llama_free(context)
    llama.llama_model_free(model)
    return np.stack(rows)


if __name__ == "__main__":
    try:
        main()
    except BackendError as error:
        sys.exit(str(error))
