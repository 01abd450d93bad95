import threading
from functools import partial

import pytest

from specengine.core.thread import EngineThread


def test_all_jobs_run_in_one_thread_in_their_order() -> None:
    with EngineThread() as engine:
        seen: list[tuple[int, int]] = []

        def note(i: int) -> None:
            seen.append((i, threading.get_ident()))

        for i in range(20):
            engine.submit(partial(note, i))
        own = engine.call(threading.get_ident)
    assert [i for i, _ in seen] == list(range(20))
    assert {thread for _, thread in seen} == {own}
    assert own != threading.get_ident()


def test_an_error_reaches_the_caller_and_the_thread_goes_on() -> None:
    with EngineThread() as engine:
        with pytest.raises(ZeroDivisionError):
            engine.call(lambda: 1 // 0)
        assert engine.call(lambda: 42) == 42


def test_closing_finishes_what_was_submitted() -> None:
    done: list[int] = []
    engine = EngineThread()
    for i in range(5):
        engine.submit(partial(done.append, i))
    engine.close()
    assert done == list(range(5))
