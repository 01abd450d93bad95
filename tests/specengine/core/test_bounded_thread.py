"""Work that nobody can stop is not waited for any longer than is allowed."""

from __future__ import annotations

import threading

import pytest

from specengine.core.bounded_thread import BoundedThread
from specengine.core.cancel import AbortFlag
from specengine.core.errors import CancelledError

LONG = 3600.0


def nothing() -> None:
    pass


def test_what_the_work_returns_or_raises_comes_back() -> None:
    thread = BoundedThread()
    assert thread.call(lambda: 7, LONG, None, nothing) == 7
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda: 1 / 0, LONG, None, nothing)
    assert thread.call(threading.get_ident, LONG, None, nothing) != threading.get_ident()
    assert not thread.is_left
    thread.close()


def test_a_timeout_that_the_work_itself_raises_leaves_nobody_behind() -> None:
    thread = BoundedThread()

    def work() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        thread.call(work, LONG, None, nothing)
    assert not thread.is_left
    thread.close()


@pytest.mark.parametrize("cancelled", [False, True])
def test_work_that_does_not_come_back_is_left_behind_until_it_ends(cancelled: bool) -> None:
    thread, abort = BoundedThread(), AbortFlag()
    end, ended = threading.Event(), threading.Event()
    before = BoundedThread.left_behind()
    if cancelled:
        abort.set()
    with pytest.raises(CancelledError if cancelled else TimeoutError):
        thread.call(end.wait, LONG if cancelled else 0.0, abort, ended.set)
    assert thread.is_left
    assert BoundedThread.left_behind() == before + 1
    assert not ended.is_set()
    end.set()
    assert ended.wait(60)
    assert BoundedThread.left_behind() == before
