"""The runtime on the embedded default: load, answer, cancel, go on."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.backend import Event
from specchat.backends.runtime import Runtime
from specchat.models.registry import load_registry
from specengine.chat.chat_template import Turn
from specengine.core.errors import CancelledError
from specengine.core.events import Chunk, Finished, Progress
from specengine.loop.inspection import InspectedRound
from specengine.sampling import SamplingParams
from support.remote_chat import ended
from support.smollm import UNENDING

GREEDY = AnswerOptions(
    sampling=SamplingParams(temperature=0, logit_bias=UNENDING),
    max_tokens=24,
    draft_length=4,
    reproducible=True,
)
QUESTION = [Turn("system", ""), Turn("user", "What is the capital of France?")]


@pytest_asyncio.fixture
async def runtime(own_tiny: None) -> AsyncIterator[Runtime]:
    registry = load_registry()
    runtime = Runtime(registry)
    stages: list[Progress] = []
    await runtime.load(
        registry.profile("tiny").model_copy(update={"n_ctx": 768, "draft": "lookup"}), stages.append
    )
    assert stages[-1].stage == "load"
    yield runtime
    await runtime.close()


async def collect(runtime: Runtime, turns: list[Turn], options: AnswerOptions) -> list[Event]:
    return [event async for event in runtime.answer(turns, options)]


async def ask(
    runtime: Runtime, turns: list[Turn] = QUESTION, options: AnswerOptions = GREEDY
) -> Finished:
    return await ended(runtime, turns, options)


def something_runs(runtime: Runtime) -> threading.Event:
    """Until the event is set."""
    end = threading.Event()

    def run() -> None:
        end.wait()

    runtime._running = runtime._thread.submit(run)
    return end


async def test_an_answer_is_chunks_and_one_finished(runtime: Runtime) -> None:
    *chunks, finished = await collect(runtime, QUESTION, GREEDY)
    assert isinstance(finished, Finished)
    assert finished.reason == "length"
    assert len(finished.tokens) == 24
    assert "".join(c.text for c in chunks if isinstance(c, Chunk)) == finished.text


async def test_cancelling_keeps_what_came_and_the_next_answer_works(runtime: Runtime) -> None:
    expected = await ask(runtime)
    story = [Turn("user", "Tell a very long story.")]
    events: list[Event] = []
    async for event in runtime.answer(story, AnswerOptions(draft_length=2)):
        events.append(event)
        if len(events) == 3:
            runtime.cancel()
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.reason == "cancelled"
    assert finished.text
    again = await ask(runtime)
    assert again.tokens == expected.tokens


async def test_cancelling_an_answer_that_waits_for_its_turn_is_not_lost(runtime: Runtime) -> None:
    before_it = something_runs(runtime)
    answering = asyncio.create_task(collect(runtime, QUESTION, GREEDY))
    await asyncio.sleep(0)  # it waits now
    runtime.cancel()
    before_it.set()
    (finished,) = await answering
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.error) == ("cancelled", None)
    again = await ask(runtime)
    assert again.reason != "cancelled"


async def test_cancelling_a_load_that_waits_for_its_turn_is_not_lost(runtime: Runtime) -> None:
    before_it = something_runs(runtime)
    tiny = load_registry().profile("tiny")
    loading = asyncio.create_task(runtime.load(tiny, lambda progress: None))
    await asyncio.sleep(0)  # it waits now
    runtime.cancel()
    before_it.set()
    with pytest.raises(CancelledError):
        await loading
    assert runtime.profile is not None  # what was loaded still is


async def test_a_caller_that_goes_away_stops_the_answer(runtime: Runtime) -> None:
    answer = runtime.answer([Turn("user", "Tell a very long story.")], AnswerOptions())
    async for _ in answer:
        break
    await answer.aclose()  # type: ignore[attr-defined]
    finished = await asyncio.wait_for(ask(runtime), 60)
    assert len(finished.tokens) == 24


async def test_the_event_loop_stays_free_while_a_model_works(runtime: Runtime) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    ticker = asyncio.create_task(tick())
    events = await collect(runtime, [Turn("user", "Count to one hundred.")], GREEDY)
    ticker.cancel()
    assert len(events) > 2
    assert ticks > len(events)


async def test_case_14_old_turns_leave_a_full_context_and_that_is_said(runtime: Runtime) -> None:
    long = "word " * 200
    turns = [Turn("system", "")]
    for _ in range(6):
        turns += [Turn("user", long), Turn("assistant", "Yes.")]
    turns.append(Turn("user", "What is the capital of France?"))
    options = AnswerOptions(sampling=SamplingParams(temperature=0), max_tokens=4, draft_length=0)
    finished = await ask(runtime, turns, options)
    assert finished.reason in ("length", "stop")
    assert "longer than the context" in finished.notices[0]


async def test_a_question_that_was_too_long_does_not_spoil_the_next(runtime: Runtime) -> None:
    too_long = Turn("user", "word " * 5000)
    refused = await ask(runtime, [too_long])
    assert refused.reason == "error"
    finished = await ask(runtime, [too_long, *QUESTION[1:]])
    assert finished.text
    assert "left out its oldest 1 messages" in finished.notices[0]


async def test_earlier_answers_are_drafted_from_and_change_nothing(runtime: Runtime) -> None:
    plain = await ask(runtime)
    asked: list[str] = []

    def earlier(model: str) -> list[tuple[int, ...]]:
        asked.append(model)
        return [plain.tokens, (10**6, 1)]  # the second is another model's

    runtime._earlier = earlier
    again = await ask(runtime)
    assert asked == ["smollm2-135m"]
    assert again.tokens == plain.tokens
    assert (again.stats.target_passes or 0) < (plain.stats.target_passes or 0)


async def test_a_context_that_is_shorter_than_asked_for_is_said_once(runtime: Runtime) -> None:
    profile = load_registry().profile("tiny").model_copy(update={"n_ctx": 9_000, "draft": "lookup"})
    await runtime.load(profile, lambda event: None)
    assert runtime.n_ctx == 8192
    options = replace(GREEDY, max_tokens=1)
    assert [(await ask(runtime, options=options)).notices for _ in range(2)] == [
        ("smollm2-135m: the context has 8192 tokens, not 9000: the model was trained for no more",),
        (),
    ]


async def test_a_build_that_cannot_reproduce_says_so(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specengine.load.pair.measure_width_step", lambda context: None)
    options = AnswerOptions(GREEDY.sampling, max_tokens=2, reproducible=True)
    finished = await ask(runtime, options=options)
    assert "may differ at near-ties" in finished.notices[0]
    assert len(finished.tokens) == 2


@pytest.mark.parametrize(
    ("rule", "draft_length", "said"),
    [("typical", 4, ["the rule typical is lossy"]), ("typical", 0, []), (None, 4, [])],
)
async def test_a_lossy_rule_is_said_where_it_verified_drafts(
    runtime: Runtime, rule: str | None, draft_length: int, said: list[str]
) -> None:
    options = AnswerOptions(GREEDY.sampling, max_tokens=8, rule=rule, draft_length=draft_length)
    finished = await ask(runtime, options=options)
    assert (finished.stats.drafted > 0) == (draft_length > 0)
    assert [notice.partition(":")[0] for notice in finished.notices] == said


async def test_cancelling_while_something_is_measured_is_a_cancelled_answer(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(context: object) -> None:
        raise CancelledError("cancelled")

    monkeypatch.setattr("specengine.load.pair.measure_width_step", measure)
    options = AnswerOptions(GREEDY.sampling, max_tokens=2, reproducible=True)
    finished = await ask(runtime, options=options)
    assert (finished.reason, finished.error) == ("cancelled", None)


async def test_rounds_come_before_their_text_where_they_are_asked_for(runtime: Runtime) -> None:
    options = AnswerOptions(GREEDY.sampling, max_tokens=8, draft_length=4, inspect=True)
    events = await collect(runtime, QUESTION, options)
    rounds = [event for event in events if isinstance(event, InspectedRound)]
    chunks = [event for event in events if isinstance(event, Chunk) and event.tokens]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert len(rounds) == 1 + finished.stats.rounds
    for seen, chunk in zip(rounds, chunks, strict=False):
        committed = [token.token for token in seen.draft[: seen.accepted]] + [seen.token.token]
        assert committed[: len(chunk.tokens)] == list(chunk.tokens)
    assert not any(
        isinstance(event, InspectedRound) for event in await collect(runtime, QUESTION, GREEDY)
    )
