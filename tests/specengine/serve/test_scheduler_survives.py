"""Whatever fails, every answer is told how it ends, the thread lives, and others go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from specengine.core.errors import BackendError
from specengine.serve.scheduler import Load
from specengine.stream.committed import Ended, Event
from support.fakes import greedy_continuation
from support.scheduler_rig import MODEL, Server

PROMPT = [1, 2, 3]


@pytest.fixture
def server() -> Server:
    return Server(n_sequences=2)


def run_in_a_thread(server: Server) -> threading.Thread:
    """Until `stop`; a fault that ends the thread is the test's business."""

    def run() -> None:
        try:
            server.scheduler.run()
        except BaseException as error:
            server.died_of = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def stop(server: Server, thread: threading.Thread) -> None:
    server.scheduler.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert server.died_of is None


def fail_once(error: BaseException) -> Callable[[], None]:
    errors = [error]

    def fail() -> None:
        if errors:
            raise errors.pop()

    return fail


def refuse(sequence: int, length: int) -> None:
    raise BackendError("llama.cpp cannot drop it")


@pytest.mark.parametrize("error", [BackendError("the pass failed"), ZeroDivisionError()])
def test_a_place_that_cannot_be_emptied_after_a_fault_costs_no_further_answer(
    server: Server, error: Exception
) -> None:
    empty, server.cache.truncate = server.cache.truncate, refuse  # type: ignore[method-assign]
    server.cache.before_decode = fail_once(error)
    thread = run_in_a_thread(server)
    server.ask("a", PROMPT, 10)
    assert server.wait_for_end("a").reason == "error"
    server.cache.truncate = empty  # type: ignore[method-assign]
    server.ask("a", PROMPT, 10)
    server.wait_for_end("a")
    stop(server, thread)
    assert server.said("a") == greedy_continuation(MODEL, PROMPT, 10)


def test_a_place_that_cannot_be_had_costs_only_the_answer_that_wanted_it(server: Server) -> None:
    for name in "ab":
        server.ask(name, PROMPT, 4)
        server.run()
    server.ask("b", PROMPT, 6)
    server.scheduler.step()
    server.cache.truncate = refuse  # type: ignore[method-assign]
    server.cache.step = 1  # so that no padding has to go
    server.ask("c", PROMPT, 4)
    server.run()
    assert server.ended("c") == Ended("error", error="llama.cpp cannot drop it")
    assert server.ended("b").reason == "length"


def test_one_who_cannot_be_told_costs_nobody_else_an_answer(server: Server) -> None:
    thread = run_in_a_thread(server)

    def is_gone(event: Event) -> None:
        raise RuntimeError("the event loop is closed")

    server.ask("a", PROMPT, 10).on_event = is_gone
    server.ask("b", PROMPT, 10)
    server.wait_for_end("b")
    stop(server, thread)
    assert server.said("b") == greedy_continuation(MODEL, PROMPT, 10)


def test_an_order_that_fails_ends_no_answer(server: Server) -> None:
    server.ask("a", PROMPT, 3)
    server.run()
    server.cache.truncate = refuse  # type: ignore[method-assign]
    server.cache.step = 1
    server.ask("b", PROMPT, 6)
    server.scheduler.step()
    server.scheduler.release("a")
    server.run()
    assert server.ended("b").reason == "length"
    assert server.scheduler.load == Load(0, 0, places_held=1)


def test_when_the_thread_dies_every_answer_is_told_and_later_ones_at_once(server: Server) -> None:
    server.cache.before_decode = fail_once(SystemExit())
    assert server.scheduler.fault is None
    server.ask("a", PROMPT, 10)
    server.ask("b", PROMPT, 10)
    server.ask("c", PROMPT, 10)  # waits for a place
    run_in_a_thread(server).join(20)
    assert isinstance(server.died_of, SystemExit)
    assert all(server.ended(name).reason == "error" for name in "abc")
    assert "start the server again" in str(server.scheduler.fault)
    server.ask("d", PROMPT, 10)
    assert server.ended("d").error == server.scheduler.fault
    with pytest.raises(BackendError, match="start the server again"):
        server.scheduler.call(lambda: 1).result(20)


def test_orders_that_come_while_it_stops_are_answered(server: Server) -> None:
    late: list[Future[int]] = []

    def order() -> None:
        if stopped.done() and not late:  # the order to stop has been taken, and no more since
            late.append(server.scheduler.call(lambda: 7))
            server.ask("a", PROMPT, 5)

    server.scheduler.stop()
    stopped = server.scheduler.call(lambda: None)
    server.clock.before_read = order
    server.scheduler.run()
    assert late[0].result(0) == 7
    assert server.ended("a").reason == "shutdown"


def test_orders_that_come_after_it_stopped_are_refused_at_once(server: Server) -> None:
    server.scheduler.stop()
    server.scheduler.run()
    server.ask("a", PROMPT, 5)
    assert server.ended("a") == Ended("shutdown")
    with pytest.raises(BackendError, match="closed"):
        server.scheduler.call(lambda: 7).result(0)
    assert server.scheduler.fault is None


def test_a_pass_that_hangs_is_told_while_it_does(server: Server) -> None:
    told: list[str | None] = []

    def look() -> None:
        for seconds in (30, 600):
            server.clock.now += seconds
            told.append(server.scheduler.fault)

    thread = run_in_a_thread(server)
    server.cache.before_decode = look
    server.ask("a", PROMPT, 1)
    server.wait_for_end("a")
    server.cache.before_decode = lambda: None
    server.ask("b", PROMPT, 1)
    server.wait_for_end("b")
    assert told[0] is None
    assert str(told[1]).startswith("the model hangs: a step is ")
    stop(server, thread)
    server.clock.now += 1000
    assert server.scheduler.fault is None  # it only waits for work
