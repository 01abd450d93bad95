import ctypes
from types import SimpleNamespace

from specengine.core.cancel import AbortFlag
from specengine.llama.abort import abort_by


def test_the_c_function_sees_what_any_thread_sets() -> None:
    flag = AbortFlag()
    params = SimpleNamespace()
    llama = SimpleNamespace(ggml_abort_callback=ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p))
    abort_by(params, flag, llama)

    def aborted() -> bool:
        return bool(params.abort_callback(params.abort_callback_data))

    assert (flag.is_set(), aborted()) == (False, False)
    flag.set()
    assert (flag.is_set(), aborted()) == (True, True)
    flag.clear()
    assert (flag.is_set(), aborted()) == (False, False)
