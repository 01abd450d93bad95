"""One answer of a verify server, whatever that server sends."""

from __future__ import annotations

import httpx
import pytest

from specchat.backends.verify_server import stream
from specchat.backends.verify_server.stream import Connection, OnLoss, RemoteStream, Request
from specchat.wire.network import NetworkThread
from specengine.stream.committed import Committed, Ended
from specengine.stream.target_stream import Cut, Notice, StreamEvent
from support.scripted_target import Said, ScriptedTarget, committed

LOST = httpx.ReadError("cut")
PROMPT = [7, 8, 9]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_FIRST_PAUSE_S", 0.0)


class Clock:
    """Time as a test says."""

    def __init__(self) -> None:
        self.now = 0.0

    def pass_(self, seconds: float) -> None:
        self.now += seconds

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stream, "time", clock)
    return clock


def events(
    network: NetworkThread, target: ScriptedTarget, n: int, on_loss: OnLoss = "wait"
) -> list[StreamEvent]:
    """All events of an answer of `n` tokens at most, to its end."""
    request = Request({}, seed=1, max_tokens=n, on_loss=on_loss)
    answer = RemoteStream(network, Connection(target.server, "0" * 32), PROMPT, request)
    found: list[StreamEvent] = []
    while not (found and isinstance(found[-1], Ended)):
        arrived = answer.wait(20)
        assert arrived, "nothing came for 20 s"
        found += arrived
    answer.close()
    return found


def error(found: list[StreamEvent]) -> str:
    """What ended the answer before its time."""
    ended = found[-1]
    assert isinstance(ended, Ended)
    assert ended.reason == "error"
    return str(ended.error)


def tokens(found: list[StreamEvent]) -> list[int]:
    return [token for event in found if isinstance(event, Committed) for token in event.tokens]


@pytest.mark.parametrize(
    "line",
    [
        committed(3, -1),
        committed(3, 2**31),
        committed(3, 10**300),
        committed(3, 5, drafted=10**9, accepted=10**9),
        committed(3, 5, drafted=2, accepted=3),
        committed(3, 5, t_us=10**400),
        committed(3, 5, logprobs=[{"token": -4, "logprob": -1, "top": []}]),
        committed(3, 5, gen=10**400),
    ],
)
def test_numbers_that_cannot_be_right_end_the_answer_in_one_line(
    network: NetworkThread, line: dict[str, object]
) -> None:
    assert "does not keep to the protocol" in error(events(network, ScriptedTarget([line]), 8))


def test_an_answer_whose_task_dies_ends_with_an_error(network: NetworkThread) -> None:
    target = ScriptedTarget([committed(3, 5), ZeroDivisionError("a fault of ours")])
    assert "ZeroDivisionError: a fault of ours" in error(events(network, target, 8))


def test_a_whole_answer_whose_end_is_lost_is_whole(network: NetworkThread) -> None:
    target = ScriptedTarget([committed(3, 5, 6), committed(5, 4), LOST])
    *_, ended = found = events(network, target, 3)
    assert tokens(found) == [5, 6, 4]
    assert ended == Ended("length")
    assert len(target.bodies) == 1
    assert not any(isinstance(event, Cut) for event in found)


def test_a_loss_counts_from_the_last_progress(network: NetworkThread, clock: Clock) -> None:
    lost_each_time: list[list[Said]] = [[committed(pos, pos), LOST] for pos in (3, 4, 5)]
    target = ScriptedTarget(*lost_each_time, before=lambda: clock.pass_(stream._GIVE_UP_S * 0.6))
    *_, ended = found = events(network, target, 3, on_loss="stop")
    assert tokens(found) == [3, 4, 5]
    assert ended == Ended("length")
    assert clock.now > 2 * stream._GIVE_UP_S


def test_a_target_that_stays_away_is_given_up(network: NetworkThread, clock: Clock) -> None:
    lost_each_time: list[list[Said]] = [[committed(3, 3), LOST], [LOST], [LOST], [LOST]]
    target = ScriptedTarget(*lost_each_time, before=lambda: clock.pass_(stream._GIVE_UP_S * 0.6))
    found = events(network, target, 3, on_loss="stop")
    assert tokens(found) == [3]
    assert "the answer is kept up to" in error(found)


def test_a_busy_server_is_waited_for_and_it_is_said(network: NetworkThread) -> None:
    said = {"error": {"message": "too many answers wait"}}
    busy = httpx.Response(429, json=said, headers={"Retry-After": "0"})
    found = events(network, ScriptedTarget(busy, busy, [committed(3, 5)]), 1)
    (cut,) = [event for event in found if isinstance(event, Cut)]
    assert "is busy (429): too many answers wait" in cut.cause
    assert [event.text for event in found if isinstance(event, Notice)] == [
        f"{cut.cause}: waited for"
    ]
    assert (tokens(found), found[-1]) == ([5], Ended("length"))


def test_a_web_page_in_the_place_of_an_answer_is_called_one(network: NetworkThread) -> None:
    target = ScriptedTarget(httpx.Response(200, html="<html>log in"))
    assert "answers with a web page" in error(events(network, target, 8))


def test_more_tokens_than_were_asked_for_are_cut_and_refused(network: NetworkThread) -> None:
    target = ScriptedTarget([committed(3, *range(5)), committed(8, *range(500))])
    found = events(network, target, 8)
    assert tokens(found) == [0, 1, 2, 3, 4, 0, 1, 2]
    assert "more than the 8 tokens" in error(found)
