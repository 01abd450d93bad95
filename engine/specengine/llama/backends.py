"""ggml's registry: the backends that llama.cpp computes with, and the GPUs that they offer.

llama-cpp-python binds none of it. The functions are reached through llama.cpp's own library: the
package's files are copies of one another, and another copy would have a registry of its own.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

from specengine.core.errors import BackendError
from specengine.llama.placement import Device

_GPU, _INTEGRATED = 1, 2  # enum ggml_backend_dev_type
_APPLE = "MTL"  # what Metal's devices are called
_SIZE = ctypes.c_size_t
_DEVICE = ctypes.c_void_p

_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ggml_backend_reg_count": (_SIZE, ()),
    "ggml_backend_load_all_from_path": (None, (ctypes.c_char_p,)),
    "ggml_backend_dev_count": (_SIZE, ()),
    "ggml_backend_dev_get": (_DEVICE, (_SIZE,)),
    "ggml_backend_dev_by_name": (_DEVICE, (ctypes.c_char_p,)),
    "ggml_backend_dev_type": (ctypes.c_int, (_DEVICE,)),
    "ggml_backend_dev_name": (ctypes.c_char_p, (_DEVICE,)),
    "ggml_backend_dev_description": (ctypes.c_char_p, (_DEVICE,)),
    "ggml_backend_dev_memory": (None, (_DEVICE, ctypes.POINTER(_SIZE), ctypes.POINTER(_SIZE))),
    "ggml_backend_dev_backend_reg": (ctypes.c_void_p, (_DEVICE,)),
    "ggml_backend_reg_get_proc_address": (ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)),
    "ggml_backend_buft_name": (ctypes.c_char_p, (ctypes.c_void_p,)),
}

OWN_KERNELS = "CPU_SPECCHAT"
"""The layout that the kernels of `engine/kernels` pack weights in."""


def load_backends(llama: ModuleType) -> None:
    """Load the backends that lie as files beside the library, of each kind the best for this CPU.

    Does nothing where they are built in. Raises BackendError where none can be loaded.
    """
    count = _function(llama, "ggml_backend_reg_count")
    if count():
        return
    folder = Path(llama.llama_cpp._base_path)
    _function(llama, "ggml_backend_load_all_from_path")(os.fsencode(folder))
    if not count():
        raise BackendError(
            f"llama.cpp finds no backend for this CPU in {folder}: reinstall llama-cpp-python"
        )


def gpu_devices(llama: ModuleType) -> list[Device]:
    """The GPUs that llama.cpp would use, in its order; none where it was built for CPUs.

    As llama.cpp does, integrated ones are left out beside others.
    """
    get = _function(llama, "ggml_backend_dev_get")
    kind = _function(llama, "ggml_backend_dev_type")
    handles = [get(number) for number in range(_function(llama, "ggml_backend_dev_count")())]
    for wanted in (_GPU, _INTEGRATED):
        if found := [handle for handle in handles if kind(handle) == wanted]:
            return [_described(llama, handle, wanted == _INTEGRATED) for handle in found]
    return []


def packed_layouts(llama: ModuleType) -> list[str]:
    """Names of the layouts that the CPU packs weights in, in the order in which they are asked."""
    device = _function(llama, "ggml_backend_dev_by_name")(b"CPU")
    registry = _function(llama, "ggml_backend_dev_backend_reg")(device)
    find = _function(llama, "ggml_backend_reg_get_proc_address")
    address = find(registry, b"ggml_backend_dev_get_extra_bufts")
    if not address:
        return []
    types = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), _DEVICE)(address)(device)
    name = _function(llama, "ggml_backend_buft_name")
    names: list[str] = []
    while types and types[len(names)]:  # a list that ends with NULL
        names.append(name(types[len(names)]).decode())
    return names


def device_list(llama: ModuleType, devices: Iterable[Device]) -> ctypes.Array[Any]:
    """The devices as `llama_model_params.devices` takes them: a list that ends with NULL."""
    by_name = _function(llama, "ggml_backend_dev_by_name")
    handles = [by_name(device.name.encode()) for device in devices]
    return (_DEVICE * (len(handles) + 1))(*handles, None)


def _described(llama: ModuleType, handle: int, integrated: bool) -> Device:
    name = _function(llama, "ggml_backend_dev_name")(handle).decode()
    description = _function(llama, "ggml_backend_dev_description")(handle).decode()
    free, total = _SIZE(), _SIZE()
    _function(llama, "ggml_backend_dev_memory")(handle, ctypes.byref(free), ctypes.byref(total))
    if not total.value:  # it has none of its own to report
        memory = psutil.virtual_memory()
        return Device(name, description, memory.available, memory.total, shares_memory=True)
    apple = name.startswith(_APPLE) and platform.machine() == "arm64"
    return Device(name, description, free.value, total.value, integrated or apple)


def _function(llama: ModuleType, name: str) -> Callable[..., Any]:
    libraries = [llama.llama_cpp._lib]
    if sys.platform == "win32":  # where a library does not pass on what it was linked with
        folder = Path(llama.llama_cpp._base_path)
        libraries += [ctypes.CDLL(str(folder / file)) for file in ("ggml.dll", "ggml-base.dll")]
    for library in libraries:
        if (found := getattr(library, name, None)) is not None:
            found.restype, found.argtypes = _SIGNATURES[name]
            bound: Callable[..., Any] = found
            return bound
    raise BackendError(
        f"this build of llama.cpp does not export {name}: reinstall llama-cpp-python"
    )
