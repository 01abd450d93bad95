"""Writes a model's weights anew in another type."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from specengine.core.errors import ModelFileError
from specengine.llama import library

_MOSTLY_Q4_0 = 2  # enum llama_ftype


def to_q4_0(source: Path, converted: Path, *, n_threads: int) -> None:
    """Write `source` to `converted` with all its matrices in Q4_0, the embedding and the output
    too: together they are half of what a small model reads for a token.

    Raises ModelFileError. A damaged source may end the process.
    """
    llama = library.load()
    params = llama.llama_model_quantize_default_params()
    params.ftype = _MOSTLY_Q4_0
    params.nthread = n_threads
    params.allow_requantize = True
    params.pure = True
    files = os.fsencode(source), os.fsencode(converted)
    if llama.llama_model_quantize(*files, ctypes.byref(params)) != 0:
        raise ModelFileError(f"llama.cpp cannot convert {source}")
