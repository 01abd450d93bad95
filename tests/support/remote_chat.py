"""Asks a target behind an address, or in a file, as `ask` does, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.runtime import Runtime
from specchat.models.registry import Profile, load_registry
from specengine.chat.chat_template import Turn
from specengine.core.events import Chunk, Finished, Reviewed
from specengine.sampling import SamplingParams
from support.smollm import UNENDING

QUESTION = "Tell a story about a fox and a crow."


@asynccontextmanager
async def remote_runtime(
    target: str | Path, draft: str | Path = "none", **options: Any
) -> AsyncIterator[Runtime]:
    """A runtime with its target at an address, or in a file; `draft` is lookup, none or a file.
    `options` are the runtime's.
    """
    runtime = Runtime(load_registry(), **{"n_threads": 1, **options})
    profile = Profile(
        name="remote", description="", target=str(target), draft=str(draft), system=""
    )
    try:
        await runtime.load(profile, lambda event: None)
        yield runtime
    finally:
        await runtime.close()


async def ended(runtime: Runtime, turns: Sequence[Turn], options: AnswerOptions) -> Finished:
    """The end of an answer."""
    *_, last = [event async for event in runtime.answer(turns, options)]
    assert isinstance(last, Finished)
    return last


async def ask(
    runtime: Runtime,
    question: str = QUESTION,
    *,
    seed: int = 5,
    logit_bias: dict[int, float] | None = None,
    max_tokens: int = 40,
    on_chunk: Callable[[Chunk], None] = lambda chunk: None,
    **options: Any,
) -> Finished:
    """One answer; without another `logit_bias` SmolLM2 goes on to `max_tokens`."""
    bias = UNENDING if logit_bias is None else logit_bias
    sampling = SamplingParams(temperature=0.7, seed=seed, logit_bias=bias)
    turns = [Turn("system", ""), Turn("user", question)]
    finished: Finished | None = None
    text: str | None = None if options.get("begun") else ""
    async for event in runtime.answer(
        turns, AnswerOptions(sampling=sampling, max_tokens=max_tokens, **options)
    ):
        if isinstance(event, Chunk):
            text = (text or "") + event.text
            on_chunk(event)
        elif isinstance(event, Reviewed):
            text = event.now.text
        elif isinstance(event, Finished):
            finished = event
    assert finished is not None
    assert text in (None, finished.text)
    return finished
