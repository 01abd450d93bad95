"""Functions of llama.cpp's `llama-ext.h`, which it exports with C++ names.

A C++ name spells the types of the arguments, in one way for Linux and macOS (Itanium ABI; also
MinGW) and in another for Microsoft's compiler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

from specengine.core.errors import BackendError
from specengine.llama import library


class _Symbol(NamedTuple):
    itanium: str
    microsoft: str
    arguments: tuple[Any, ...]
    result: Any


_POINTER, _ID = ctypes.c_void_p, ctypes.c_uint32

_SYMBOLS = {
    # void (llama_context *, uint32_t layer, bool enable)
    "llama_set_embeddings_layer_inp": _Symbol(
        "_Z30llama_set_embeddings_layer_inpP13llama_contextjb",
        "?llama_set_embeddings_layer_inp@@YAXPEAUllama_context@@I_N@Z",
        (_POINTER, _ID, ctypes.c_bool),
        None,
    ),
    # float * (llama_context *, uint32_t layer)
    "llama_get_embeddings_layer_inp": _Symbol(
        "_Z30llama_get_embeddings_layer_inpP13llama_contextj",
        "?llama_get_embeddings_layer_inp@@YAPEAMPEAUllama_context@@I@Z",
        (_POINTER, _ID),
        ctypes.POINTER(ctypes.c_float),
    ),
    # void (llama_context *, bool enable, bool masked)
    "llama_set_embeddings_nextn": _Symbol(
        "_Z26llama_set_embeddings_nextnP13llama_contextbb",
        "?llama_set_embeddings_nextn@@YAXPEAUllama_context@@_N1@Z",
        (_POINTER, ctypes.c_bool, ctypes.c_bool),
        None,
    ),
    # float * (llama_context *)
    "llama_get_embeddings_nextn": _Symbol(
        "_Z26llama_get_embeddings_nextnP13llama_context",
        "?llama_get_embeddings_nextn@@YAPEAMPEAUllama_context@@@Z",
        (_POINTER,),
        ctypes.POINTER(ctypes.c_float),
    ),
    # void (llama_context *, int32_t offset)
    "llama_set_nextn_layer_offset": _Symbol(
        "_Z28llama_set_nextn_layer_offsetP13llama_contexti",
        "?llama_set_nextn_layer_offset@@YAXPEAUllama_context@@H@Z",
        (_POINTER, ctypes.c_int32),
        None,
    ),
}


def require() -> None:
    """Raises BackendError where this build of llama.cpp lacks a function that heads need."""
    for name in _SYMBOLS:
        function(name)


def function(name: str) -> Callable[..., Any]:
    """A function of `llama-ext.h`. Raises BackendError where this build does not export it."""
    symbol = _SYMBOLS[name]
    loaded = library.load().llama_cpp._lib
    for spelling in (name, symbol.itanium, symbol.microsoft):
        found = getattr(loaded, spelling, None)
        if found is not None:
            found.argtypes, found.restype = symbol.arguments, symbol.result
            bound: Callable[..., Any] = found
            return bound
    raise BackendError(
        f"this build of llama.cpp does not export {name}, which heads need: draft by lookup or "
        f"with a model, or rebuild it with: {library.REBUILD}"
    )
