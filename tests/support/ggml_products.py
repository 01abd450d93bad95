"""Products of quantized matrices by ggml itself, without a model: through its C interface."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from specengine.llama import library
from specengine.llama.backends import OWN_KERNELS

Floats = NDArray[np.float32]


_POINTER, _SIZE, _INT64, _TEXT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_char_p
_F32, _I32 = 0, 26
_MEMORY = 1 << 20  # of a context, for the descriptions of its tensors


class _InitParams(ctypes.Structure):
    _fields_ = (("mem_size", _SIZE), ("mem_buffer", _POINTER), ("no_alloc", ctypes.c_bool))


_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ggml_init": (_POINTER, (_InitParams,)),
    "ggml_free": (None, (_POINTER,)),
    "ggml_new_tensor_4d": (_POINTER, (_POINTER, ctypes.c_int, *4 * (_INT64,))),
    "ggml_permute": (_POINTER, (_POINTER, _POINTER, *4 * (ctypes.c_int,))),
    "ggml_mul_mat": (_POINTER, (_POINTER, _POINTER, _POINTER)),
    "ggml_mul_mat_id": (_POINTER, (_POINTER, _POINTER, _POINTER, _POINTER)),
    "ggml_nbytes": (_SIZE, (_POINTER,)),
    "ggml_get_data": (_POINTER, (_POINTER,)),
    "ggml_row_size": (_SIZE, (ctypes.c_int, _INT64)),
    "ggml_new_graph": (_POINTER, (_POINTER,)),
    "ggml_build_forward_expand": (None, (_POINTER, _POINTER)),
    "ggml_quantize_chunk": (
        _SIZE,
        (ctypes.c_int, _POINTER, _POINTER, _INT64, _INT64, _INT64, _POINTER),
    ),
    "ggml_backend_alloc_ctx_tensors_from_buft": (_POINTER, (_POINTER, _POINTER)),
    "ggml_backend_alloc_ctx_tensors": (_POINTER, (_POINTER, _POINTER)),
    "ggml_backend_buffer_free": (None, (_POINTER,)),
    "ggml_backend_buffer_get_size": (_SIZE, (_POINTER,)),
    "ggml_backend_buft_name": (_TEXT, (_POINTER,)),
    "ggml_backend_dev_by_name": (_POINTER, (_TEXT,)),
    "ggml_backend_dev_init": (_POINTER, (_POINTER, _TEXT)),
    "ggml_backend_dev_buffer_type": (_POINTER, (_POINTER,)),
    "ggml_backend_dev_supports_op": (ctypes.c_bool, (_POINTER, _POINTER)),
    "ggml_backend_dev_backend_reg": (_POINTER, (_POINTER,)),
    "ggml_backend_reg_get_proc_address": (_POINTER, (_POINTER, _TEXT)),
    "ggml_backend_free": (None, (_POINTER,)),
    "ggml_backend_graph_compute": (ctypes.c_int, (_POINTER, _POINTER)),
    "ggml_backend_tensor_set": (None, (_POINTER, _POINTER, _SIZE, _SIZE)),
    "ggml_backend_tensor_get": (None, (_POINTER, _POINTER, _SIZE, _SIZE)),
}


@cache
def _function(name: str) -> Any:
    function = getattr(library.load().llama_cpp._lib, name)
    function.restype, function.argtypes = _SIGNATURES[name]
    return function


def _call(name: str, *arguments: Any) -> Any:
    return _function(name)(*arguments)


def _cpu_function(name: str, result: Any, *arguments: Any) -> Any:
    registry = _call("ggml_backend_dev_backend_reg", _call("ggml_backend_dev_by_name", b"CPU"))
    address = _call("ggml_backend_reg_get_proc_address", registry, name.encode())
    return ctypes.CFUNCTYPE(result, *arguments)(address)


def buffer_types() -> dict[str, int]:
    """The CPU's extra buffer types by name, in the order in which llama.cpp asks them."""
    kind = ctypes.POINTER(_POINTER)
    types = _cpu_function("ggml_backend_dev_get_extra_bufts", kind, _POINTER)(
        _call("ggml_backend_dev_by_name", b"CPU")
    )
    result: dict[str, int] = {}
    while (handle := types[len(result)]) is not None:
        result[_call("ggml_backend_buft_name", handle).decode()] = handle
    return result


def quantized(kind: int, weights: Floats) -> NDArray[np.uint8]:
    """Rows of `weights` as a file has them, in ggml's type `kind`."""
    weights = np.ascontiguousarray(weights, np.float32)
    outputs, inputs = weights.shape
    result = np.empty((outputs, _call("ggml_row_size", kind, inputs)), np.uint8)
    _call(
        "ggml_quantize_chunk",
        kind,
        weights.ctypes.data,
        result.ctypes.data,
        0,
        outputs,
        inputs,
        None,
    )
    return result


class Weights:
    """A matrix, or one for each head, in a buffer of the CPU: the kernels' own, or the ordinary."""

    def __init__(
        self, kind: int, stored: NDArray[np.uint8], inputs: int, *, kernels: bool = False
    ) -> None:
        """`stored` has rows of `inputs` numbers, as ggml's type `kind` has them."""
        self._context = _call("ggml_init", _InitParams(_MEMORY, None, True))
        heads, self._outputs = (1, *stored.shape)[-3:-1]
        self._inputs = inputs
        self._tensor = _call(
            "ggml_new_tensor_4d", self._context, kind, inputs, self._outputs, heads, 1
        )
        device = _call("ggml_backend_dev_by_name", b"CPU")
        ordinary = _call("ggml_backend_dev_buffer_type", device)
        self._buffer = _call(
            "ggml_backend_alloc_ctx_tensors_from_buft",
            self._context,
            buffer_types()[OWN_KERNELS] if kernels else ordinary,
        )
        self._backend = _call("ggml_backend_dev_init", device, None)
        stored = np.ascontiguousarray(stored)
        _call("ggml_backend_tensor_set", self._tensor, stored.ctypes.data, 0, stored.nbytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _call("ggml_backend_free", self._backend)
        _call("ggml_backend_buffer_free", self._buffer)
        _call("ggml_free", self._context)

    @property
    def bytes(self) -> int:
        return int(_call("ggml_backend_buffer_get_size", self._buffer))

    def packed(self) -> NDArray[np.uint8]:
        """What lies in the buffer."""
        data = _call("ggml_get_data", self._tensor)
        return np.frombuffer(ctypes.string_at(data, self.bytes), np.uint8)

    def times(self, rows: Floats, threads: int = 2, *, permuted: bool = False) -> Floats:
        """The product with each of `rows`, shape (…, inputs): of shape (…, outputs).

        `permuted`: the rows lie in memory with their first two axes exchanged, as attention has
        them.
        """
        shape = rows.shape[:-1]
        axes = (1,) * (3 - len(shape)) + shape
        rows = np.ascontiguousarray(rows, np.float32).reshape(*axes, self._inputs)
        with _Graph(self._backend) as graph:
            given = graph.tensor(_F32, rows.swapaxes(1, 2) if permuted else rows)
            if permuted:
                given = _call("ggml_permute", graph.context, given, 0, 2, 1, 3)
            product = _call("ggml_mul_mat", graph.context, self._tensor, given)
            return graph.result(product, (*shape, self._outputs), threads)

    def times_by_expert(self, rows: Floats, experts: NDArray[np.int32], threads: int = 2) -> Floats:
        """The products of each token's rows with the matrices of its experts.

        `experts` has the shape (tokens, slots), `rows` (tokens, slots or 1, inputs), the result
        (tokens, slots, outputs).
        """
        with _Graph(self._backend) as graph:
            given, ids = graph.tensor(_F32, rows[None]), graph.tensor(_I32, experts[None, None])
            product = _call("ggml_mul_mat_id", graph.context, self._tensor, given, ids)
            return graph.result(product, (*experts.shape, self._outputs), threads)

    def supported(self) -> bool:
        """Whether a product with it is computed where it lies."""
        context = _call("ggml_init", _InitParams(_MEMORY, None, True))
        rows = _call("ggml_new_tensor_4d", context, _F32, self._inputs, 2, 1, 1)
        product = _call("ggml_mul_mat", context, self._tensor, rows)
        device = _call("ggml_backend_dev_by_name", b"CPU")
        answer = _call("ggml_backend_dev_supports_op", device, product)
        _call("ggml_free", context)
        return bool(answer)


class _Graph:
    """One operation and what it is given."""

    def __init__(self, backend: int) -> None:
        self.context = _call("ggml_init", _InitParams(_MEMORY, None, True))
        self._backend = backend
        self._buffer: int | None = None
        self._given: list[tuple[int, NDArray[Any]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._buffer is not None:
            _call("ggml_backend_buffer_free", self._buffer)
        _call("ggml_free", self.context)

    def tensor(self, kind: int, values: NDArray[Any]) -> int:
        """A tensor with `values`, which have four axes."""
        shape = reversed(values.shape)
        handle: int = _call("ggml_new_tensor_4d", self.context, kind, *shape)
        self._given.append((handle, np.ascontiguousarray(values)))
        return handle

    def result(self, operation: int, shape: tuple[int, ...], threads: int) -> Floats:
        graph = _call("ggml_new_graph", self.context)
        _call("ggml_build_forward_expand", graph, operation)
        self._buffer = _call("ggml_backend_alloc_ctx_tensors", self.context, self._backend)
        for handle, values in self._given:
            _call("ggml_backend_tensor_set", handle, values.ctypes.data, 0, values.nbytes)
        _set_threads()(self._backend, threads)
        assert _call("ggml_backend_graph_compute", self._backend, graph) == 0
        result = np.empty(shape, np.float32)
        _call("ggml_backend_tensor_get", operation, result.ctypes.data, 0, result.nbytes)
        return result


@cache
def _set_threads() -> Any:
    return _cpu_function("ggml_backend_set_n_threads", None, _POINTER, ctypes.c_int)
