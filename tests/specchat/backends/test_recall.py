"""A chat that is opened again, and one that is read ahead, on the embedded default: the same text,
with less to evaluate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

import pytest

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.kept_states import KeptStates
from specchat.backends.runtime import Runtime
from specchat.config import locations
from specchat.models.registry import load_registry
from specengine.chat.chat_template import Turn
from specengine.core.events import Progress
from specengine.load.pair import Pair
from specengine.sampling import SamplingParams
from support.remote_chat import ended
from support.smollm import UNENDING

OPTIONS = AnswerOptions(
    sampling=SamplingParams(temperature=0, logit_bias=UNENDING),
    max_tokens=12,
    draft_length=0,
    reproducible=True,
    chat_id=1,
)
LONG = "The three primary colours are red, yellow and blue. " * 60
QUESTION = [Turn("system", ""), Turn("user", f"{LONG}\nWhich are they?")]

Start = Callable[[], AbstractAsyncContextManager[Runtime]]


@pytest.fixture
def start(own_tiny: None) -> Start:
    """Starts the program, as often as a test wants."""
    registry = load_registry()

    @asynccontextmanager
    async def started() -> AsyncIterator[Runtime]:
        states = KeptStates(locations.states_dir(), 2**30)
        stages: list[Progress] = []
        runtime = Runtime(registry, states=states, reads_ahead=True)
        await runtime.load(
            registry.profile("tiny").model_copy(update={"n_ctx": 1024}), stages.append
        )
        yield runtime
        await runtime.close()

    return started


async def pair_of(runtime: Runtime) -> Pair:
    return await runtime.run(lambda pair: pair)


async def answer(runtime: Runtime, turns: list[Turn]) -> tuple[Turn, int]:
    """The answer, and how many passes it took."""
    pair = await pair_of(runtime)
    passes = pair.context.passes
    finished = await ended(runtime, turns, OPTIONS)
    assert finished.error is None
    return Turn("assistant", finished.text, finished.tokens), pair.context.passes - passes


async def test_a_chat_that_is_opened_again_goes_on_as_if_it_had_never_been_closed(
    start: Start,
) -> None:
    async with start() as runtime:
        first, passes = await answer(runtime, QUESTION)
        assert passes == 2 + 11  # the prompt needs two
        chat = [*QUESTION, first]
        await runtime.keep(chat, "", OPTIONS)
        second = [*chat, Turn("user", "And which is the first?")]
        live, live_passes = await answer(runtime, second)
    async with start() as runtime:
        again, passes = await answer(runtime, second)
    assert again == live
    assert passes == live_passes
    content = (locations.states_dir() / "1.state").read_bytes()
    (locations.states_dir() / "1.state").write_bytes(content[:-20_000] + b"x" + content[-19_999:])
    async with start() as runtime:
        assert (await answer(runtime, second))[0] == live
    assert list(locations.states_dir().iterdir()) == []


async def test_a_prompt_that_was_read_ahead_is_answered_the_same_at_once(start: Start) -> None:
    question = QUESTION[-1].text
    async with start() as runtime:
        plain, passes = await answer(runtime, QUESTION)
        await answer(runtime, [Turn("user", "Hello")])
        await runtime.read_ahead(QUESTION[:1], question[:-8], OPTIONS)
        ahead, ahead_passes = await answer(runtime, QUESTION)
    assert ahead == plain
    assert ahead_passes == passes - 1


async def test_an_answer_that_is_asked_for_ends_the_reading_at_once(start: Start) -> None:
    async with start() as runtime:
        expected, _ = await answer(runtime, [Turn("user", "Hello")])
        pair = await pair_of(runtime)
        reading = asyncio.create_task(runtime.read_ahead(QUESTION[:1], LONG, OPTIONS))
        await asyncio.sleep(0.05)
        assert not reading.done()
        assert (await answer(runtime, [Turn("user", "Hello")]))[0] == expected
        assert reading.done()
        assert len(pair.context.tokens) < 128


async def test_nothing_is_read_ahead_where_the_setting_says_so(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start() as runtime:
        monkeypatch.setattr(runtime, "_reads_ahead", False)
        await runtime.read_ahead(QUESTION[:1], LONG, OPTIONS)
        assert (await pair_of(runtime)).context.passes == 0


async def test_what_others_may_not_read_is_not_kept_without_a_chat(start: Start) -> None:
    async with start() as runtime:
        first, _ = await answer(runtime, QUESTION)
        await runtime.keep([*QUESTION, first], "", replace(OPTIONS, chat_id=None))
    assert not locations.states_dir().exists()
