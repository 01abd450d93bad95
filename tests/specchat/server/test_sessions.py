from __future__ import annotations

import pytest

from specchat.server.refusal import Refusal
from specchat.server.sessions import Answer, Session, Sessions
from specengine.core.tokens import as_tokens
from specengine.sampling import SamplingParams
from specengine.serve.generation import Generation
from specengine.stream.committed import Committed, Ended
from specengine.stream.transcript import Transcript


def committed(pos: int) -> Committed:
    return Committed(pos, (1,), (0.5,), 0, 0)


async def test_who_does_not_read_loses_the_rest_of_the_answer_and_is_told() -> None:
    generation = Generation(
        "a", Transcript([1]), SamplingParams(seed=1), lambda event: None, max_tokens=9
    )
    cancelled: list[Generation] = []
    answer = Answer(1, generation, cancelled.append)
    for pos in range(9000):
        answer.put(committed(pos), at=0)
    answer.put(Ended("cancelled"), at=0)
    assert cancelled == [generation]
    read = [answer.events.get_nowait()[0] for _ in range(answer.events.qsize())]
    assert len(read) < 5000
    assert read[-1] == Ended("cancelled")
    assert [event.pos for event in read[:-1] if isinstance(event, Committed)] == list(
        range(len(read) - 1)
    )


def test_a_session_is_found_by_its_own_key_only() -> None:
    closed: list[Session] = []
    sessions = Sessions(ttl_s=60, per_owner=1, close=closed.append)
    session = sessions.create("mine")
    assert sessions.get("mine", session.id) is session
    with pytest.raises(Refusal) as refused:
        sessions.get("yours", session.id)
    assert refused.value.status == 410
    sessions.create("yours")
    sessions.delete(session)
    sessions.delete(session)
    assert closed == [session]
    assert len(sessions.create("mine").id) >= 24


def test_idle_sessions_give_way_to_new_ones_the_least_recently_used_first() -> None:
    closed: list[Session] = []
    sessions = Sessions(ttl_s=60, per_owner=3, close=closed.append)
    streamed, used, unused = (sessions.create("mine") for _ in range(3))
    streamed.connections += 1
    unused.used_at, used.used_at = 1e9, 2e9
    sessions.create("yours")
    third = sessions.create("mine")
    assert closed == [unused]
    third.connections += 1
    sessions.create("mine").connections += 1
    assert closed == [unused, used]
    with pytest.raises(Refusal) as refused:
        sessions.create("mine")
    assert (refused.value.status, len(sessions)) == (429, 4)
    streamed.connections -= 1
    sessions.create("mine")
    assert closed == [unused, used, streamed]


async def test_a_session_with_an_answer_gives_way_to_none() -> None:
    sessions = Sessions(ttl_s=-1, per_owner=1, close=lambda session: None)
    session = sessions.create("mine")
    session.begin(
        lambda on_event: Generation(
            session.id, Transcript([1]), SamplingParams(seed=1), on_event, max_tokens=9
        ),
        lambda generation: None,
        lambda event: None,
    )
    with pytest.raises(Refusal):
        sessions.create("mine")
    assert sessions.get("mine", session.id) is session


def test_a_text_goes_on_from_the_kept_session_that_has_most_of_it_and_loses_least() -> None:
    sessions = Sessions(ttl_s=60, per_owner=9, close=lambda session: None)

    def kept(*tokens: int) -> Session:
        session = sessions.resume("mine", as_tokens([100 + sum(tokens)]))
        session.transcript = Transcript(tokens)
        return session

    short, long, busy = kept(1, 2), kept(1, 2, 3), kept(1, 2, 3, 4)
    busy.connections += 1
    other, of_a_client = sessions.resume("yours", as_tokens([7])), sessions.create("mine")
    other.transcript = of_a_client.transcript = Transcript([1, 2, 3, 4, 5])
    assert sessions.resume("mine", as_tokens([1, 2, 3, 4, 5])) is long
    assert sessions.resume("mine", as_tokens([1, 2, 9])) is short
    assert sessions.resume("mine", as_tokens([1, 9])) is short  # as much is dropped as is used
    short.connections += 1
    assert sessions.resume("mine", as_tokens([1, 9])) not in (short, long, busy, of_a_client)
