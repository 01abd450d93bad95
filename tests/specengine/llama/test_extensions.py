"""Functions with C++ names: found under any compiler's spelling, missed with one line."""

from __future__ import annotations

import ctypes
import re
from types import SimpleNamespace

import pytest

from specengine.core.errors import BackendError
from specengine.llama import extensions, library


class Exports:
    """A library that exports the given names and nothing else."""

    def __init__(self, *names: str) -> None:
        for name in names:
            setattr(self, name, SimpleNamespace())


def load(monkeypatch: pytest.MonkeyPatch, exports: object) -> None:
    module = SimpleNamespace(llama_cpp=SimpleNamespace(_lib=exports))
    monkeypatch.setattr(library, "load", lambda: module)


def test_this_build_exports_every_function() -> None:
    for name in extensions._SYMBOLS:
        assert callable(extensions.function(name))


# How Microsoft's compiler spells types: X void, I unsigned int, _N bool, PEAM float *,
# PEAUllama_context@@ struct llama_context *; what the function returns comes first.
@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        (
            "llama_set_embeddings_layer_inp",
            "?llama_set_embeddings_layer_inp@@YAXPEAUllama_context@@I_N@Z",
        ),
        (
            "llama_get_embeddings_layer_inp",
            "?llama_get_embeddings_layer_inp@@YAPEAMPEAUllama_context@@I@Z",
        ),
        (  # the second of two equal types is named after the first
            "llama_set_embeddings_nextn",
            "?llama_set_embeddings_nextn@@YAXPEAUllama_context@@_N1@Z",
        ),
        (
            "llama_get_embeddings_nextn",
            "?llama_get_embeddings_nextn@@YAPEAMPEAUllama_context@@@Z",
        ),
        (
            "llama_set_nextn_layer_offset",
            "?llama_set_nextn_layer_offset@@YAXPEAUllama_context@@H@Z",
        ),
    ],
)
def test_a_build_by_microsofts_compiler_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, spelling: str
) -> None:
    exports = Exports(spelling)
    load(monkeypatch, exports)
    found = extensions.function(name)
    assert found is getattr(exports, spelling)
    assert found.argtypes[0] is ctypes.c_void_p


def test_a_build_without_the_function_is_one_line() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        load(monkeypatch, Exports())
        with pytest.raises(BackendError, match="does not export llama_set_embeddings") as caught:
            extensions.function("llama_set_embeddings_layer_inp")
    assert re.search(r"draft by lookup.*pip install", str(caught.value))
    assert "\n" not in str(caught.value)
