"""Sides by name, and how an answer of our own pair is timed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.backend import Event
from specchat.backends.runtime import Runtime
from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.sides import LocalSide, default_names, local_sides
from specengine.chat.chat_template import Turn
from specengine.core.events import Chunk, Finished, Progress
from specengine.core.statistics import Statistics
from specengine.sampling import SamplingParams

GREEDY = SamplingParams(temperature=0)
QUESTION = [Turn("user", "why?")]


class SlowRuntime:
    """Takes .05 s to its first token and .1 s for the rest."""

    def __init__(self, reason: Any = "length", error: str | None = None) -> None:
        self.options: list[AnswerOptions] = []
        self.forgotten = 0
        self._end = (reason, error)

    async def answer(self, turns: Sequence[Turn], options: AnswerOptions) -> AsyncIterator[Event]:
        self.options.append(options)
        stats = Statistics(prompt_tokens=7, completion_tokens=3, drafted=4, accepted=1)
        yield Progress("prompt", 7, 7, "reading")
        await asyncio.sleep(0.05)
        yield Chunk("a", (1,), stats)
        await asyncio.sleep(0.1)
        yield Chunk("bc", (2, 3), stats)
        reason, error = self._end
        yield Finished(reason, "abc", (1, 2, 3), stats, error)

    async def run(self, work: Callable[[Any], None]) -> None:
        class FakePair:
            forget = self._forget

        work(FakePair)

    def _forget(self) -> None:
        self.forgotten += 1


def side(runtime: SlowRuntime, **options: Any) -> LocalSide:
    return LocalSide("x", "", cast(Runtime, runtime), AnswerOptions(**options))


async def test_an_answer_is_timed_where_its_text_arrives() -> None:
    runtime = SlowRuntime()
    answer = await side(runtime, max_tokens=3).answer(QUESTION, GREEDY)
    measured = answer.measured
    assert measured.ttft_s >= 0.05
    assert measured.decode_s >= 0.1
    assert (answer.text, answer.tokens) == ("abc", (1, 2, 3))
    assert (measured.prompt_tokens, measured.completion_tokens) == (7, 3)
    assert (measured.drafted, measured.accepted) == (4, 1)
    assert runtime.options[0].sampling == GREEDY
    assert runtime.options[0].max_tokens == 3


async def test_equal_texts_have_equal_digests() -> None:
    one = await side(SlowRuntime()).answer(QUESTION, GREEDY)
    two = await side(SlowRuntime("stop")).answer(QUESTION, GREEDY)
    assert one.measured.digest == two.measured.digest


@pytest.mark.parametrize(("reason", "error"), [("error", "it broke"), ("cancelled", None)])
async def test_an_answer_that_failed_is_no_figure(reason: str, error: str | None) -> None:
    with pytest.raises(BenchmarkError, match=f"x: {error or 'the answer was cancelled'}"):
        await side(SlowRuntime(reason, error)).answer(QUESTION, GREEDY)


def options_of(name: str, *, has_draft_model: bool = True) -> AnswerOptions:
    runtime = cast(Runtime, SlowRuntime())
    sides = local_sides([name], runtime, AnswerOptions(), has_draft_model=has_draft_model)
    assert [s.name for s in sides] == ["alone", name]
    options: AnswerOptions = cast(LocalSide, sides[1])._options
    return options


def test_names_say_what_drafts_and_how_much() -> None:
    assert options_of("adaptive") == AnswerOptions()
    assert options_of("lookup-8") == AnswerOptions(drafter="lookup", draft_length=8)
    assert options_of("model-3") == AnswerOptions(drafter="model", draft_length=3)


def test_the_target_alone_comes_first_and_once() -> None:
    runtime = cast(Runtime, SlowRuntime())
    names = ["adaptive", "alone", "adaptive"]
    sides = local_sides(names, runtime, AnswerOptions(), has_draft_model=False)
    assert [s.name for s in sides] == ["alone", "adaptive"]
    assert cast(LocalSide, sides[0])._options.drafting is False


@pytest.mark.parametrize("name", ["model", "lookup-0", "lookup-17", "eagle-4", ""])
def test_names_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(BenchmarkError, match="there is no side"):
        options_of(name)


def test_a_draft_model_has_to_be_loaded() -> None:
    with pytest.raises(BenchmarkError, match="--draft"):
        options_of("model-4", has_draft_model=False)
    assert default_names(has_draft_model=False) == ("adaptive", "lookup-1", "lookup-3", "lookup-7")
    assert default_names(has_draft_model=True)[4:] == ("model-1", "model-3", "model-7")
