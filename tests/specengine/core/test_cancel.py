import time

from specengine.core.cancel import AbortFlag, time_limit


def test_two_flags_are_two() -> None:
    one, other = AbortFlag(), AbortFlag()
    one.set()
    assert not other.is_set()


def test_a_time_limit_sets_the_flag_of_what_takes_too_long_and_clears_it_after() -> None:
    flag = AbortFlag()
    with time_limit(flag, 0.0):
        while not flag.is_set():
            time.sleep(0.01)
    assert not flag.is_set()


def test_a_time_limit_that_is_kept_sets_nothing() -> None:
    flag = AbortFlag()
    with time_limit(flag, 3600.0):
        time.sleep(1.2)  # longer than the watchdog's period
        assert not flag.is_set()


def test_each_flag_has_its_own_limit() -> None:
    late, early = AbortFlag(), AbortFlag()
    with time_limit(late, 0.0), time_limit(early, 3600.0):
        while not late.is_set():
            time.sleep(0.01)
        assert not early.is_set()
