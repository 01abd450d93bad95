import ctypes

from specengine.cancel import AbortFlag


def test_the_c_function_sees_what_any_thread_sets() -> None:
    flag = AbortFlag()
    callback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(flag.callback_address)
    assert (flag.is_set(), callback(flag.address)) == (False, False)
    flag.set()
    assert (flag.is_set(), callback(flag.address)) == (True, True)
    flag.clear()
    assert (flag.is_set(), callback(flag.address)) == (False, False)


def test_two_flags_are_two() -> None:
    one, other = AbortFlag(), AbortFlag()
    one.set()
    assert not other.is_set()
