"""How a running pass is stopped: what llama.cpp calls to ask whether it should go on.

It asks hundreds of times a pass. A Python callable would have to take the interpreter's lock each
time and can cost as much as the pass; so the callback is a C function that only reads memory:
libc's `strlen`, over the `AbortFlag` as a string of length 0 or 1.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

from specengine.core.cancel import AbortFlag


def abort_by(params: Any, abort: AbortFlag, llama: Any) -> None:
    """Let `params`, a `llama_context_params`, make every pass end while `abort` is set."""
    params.abort_callback = llama.ggml_abort_callback(_strlen_address())
    params.abort_callback_data = abort.address


@functools.cache
def _strlen_address() -> int:
    libc: Any = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    address = ctypes.cast(libc.strlen, ctypes.c_void_p).value
    assert address is not None
    return address
