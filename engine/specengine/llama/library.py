"""Loads llama.cpp, once, with its environment prepared and its log routed to `logging`."""

from __future__ import annotations

import ctypes
import importlib
import logging
import re
import threading
from types import ModuleType

from specengine.core.errors import BackendError, ModelFileError, OutOfMemoryError
from specengine.llama import environment
from specengine.llama.backends import load_backends
from specengine.llama.log import LogLines

# Pinned exactly: the extension bindings promise nothing from one version to the next.
LLAMA_CPP_PYTHON_VERSION = "0.3.36"

# pip's cache ignores compiler flags and CPU, so a wheel that does not fit comes back from it.
INSTALL = f"python -m pip install llama-cpp-python=={LLAMA_CPP_PYTHON_VERSION}"
REBUILD = f"{INSTALL} --force-reinstall --no-cache-dir --no-deps"

# In every backend's words.
_OUT_OF_MEMORY = re.compile("allocat|out ?of ?(device|host)? ?memory", re.IGNORECASE)

logger = logging.getLogger("specengine.llama")
logger.addHandler(logging.NullHandler())

_lock = threading.Lock()
_module: ModuleType | None = None
_log = LogLines(logger)
_callback: object = None  # llama.cpp keeps only a pointer to it


def load() -> ModuleType:
    """The `llama_cpp` module, imported and initialised at the first call. Safe from any thread.

    Raises BackendError where it is missing, cannot be loaded, or is not the pinned version.
    """
    global _module
    with _lock:
        if _module is None:
            _module = _load()
        return _module


def last_errors() -> tuple[str, ...]:
    """The last error lines that llama.cpp logged, newest last: why a call just failed."""
    return tuple(_log.errors)


def last_error() -> str:
    """The newest of `last_errors`, or a word that llama.cpp gave none."""
    return _log.errors[-1] if _log.errors else "llama.cpp gave no reason"


def failure(message: str) -> ModelFileError:
    """What to raise where a model or a context cannot be made: OutOfMemoryError for that cause."""
    if any(_OUT_OF_MEMORY.search(line) for line in _log.errors):
        return OutOfMemoryError(message)
    return ModelFileError(message)


def clear_errors() -> None:
    """Forget older errors, so that `last_error` belongs to the call that follows."""
    _log.errors.clear()


def _load() -> ModuleType:
    global _callback
    environment.prepare()
    try:
        module = importlib.import_module("llama_cpp")
    except ModuleNotFoundError as error:
        raise BackendError(f"{error.name} is not installed; install it with: {INSTALL}") from error
    except (ImportError, OSError, RuntimeError) as error:
        # A RuntimeError or OSError is llama-cpp-python's word for a library that does not load.
        line = " ".join(str(error).split())
        raise BackendError(
            f"llama.cpp's library cannot be loaded ({line}); rebuild it with: {REBUILD}"
        ) from error
    version = getattr(module, "__version__", "unknown")
    if version != LLAMA_CPP_PYTHON_VERSION:
        raise BackendError(
            f"llama-cpp-python is {version}, but exactly {LLAMA_CPP_PYTHON_VERSION} is needed; "
            f"install it with: {INSTALL}"
        )
    _callback = module.llama_log_callback(_log.write)
    module.llama_log_set(_callback, ctypes.c_void_p(0))
    load_backends(module)
    module.llama_backend_init()
    return module
