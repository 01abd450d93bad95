"""What a saved cache holds good for: the same model, the same build, the same parameters."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from specengine.llama.probe import build_key

_HEADER = 2**20  # bytes; metadata, and what the tensors are
_SAMPLES = 64  # blocks spread over the weights
_BLOCK = 4096


def state_key(model: Path, parameters: str) -> str:
    """A hash of the file `model`, of llama.cpp's library and this CPU, and of `parameters`.

    Of the weights it sees samples, beside the size and the time of the last change: reading all of
    them would take longer than what a restored state saves. Raises OSError.
    """
    digest = hashlib.blake2b(digest_size=16)
    digest.update(f"{build_key()}\n{parameters}\n".encode())
    with model.open("rb") as file:
        status = os.fstat(file.fileno())
        digest.update(f"{status.st_size} {status.st_mtime_ns}\n".encode())
        digest.update(file.read(_HEADER))
        for i in range(_SAMPLES):
            file.seek(i * status.st_size // _SAMPLES)
            digest.update(file.read(_BLOCK))
    return digest.hexdigest()
