"""What is compared: the target alone, drafters of fixed length, the controller."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Protocol

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.runtime import Runtime
from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.report import Measured, OwnTiming
from specchat.benchmark.summary import ALONE
from specengine.chat.chat_template import Turn
from specengine.core.events import Chunk, Finished
from specengine.core.limits import MAX_DRAFT
from specengine.load.pair import Pair
from specengine.sampling import SamplingParams

ADAPTIVE = "adaptive"
_LENGTHS = (1, 3, 7)
_FIXED = re.compile(r"(lookup|model)-(\d+)")


@dataclass(frozen=True, slots=True)
class Answer:
    """`tokens`: its ids, where the side tells them whole."""

    text: str
    tokens: tuple[int, ...] | None
    measured: Measured


class Side(Protocol):
    """Something that answers, at its own speed."""

    name: str
    description: str

    async def forget(self) -> None:
        """Answer the next question as the first one of a chat."""
        ...

    async def answer(self, turns: Sequence[Turn], sampling: SamplingParams) -> Answer:
        """Raises BenchmarkError if the answer failed."""
        ...


class LocalSide:
    """Our own pair, through the very code that the chat uses."""

    def __init__(
        self, name: str, description: str, runtime: Runtime, options: AnswerOptions
    ) -> None:
        self.name = name
        self.description = description
        self._runtime = runtime
        self._options = options

    async def forget(self) -> None:
        await self._runtime.run(Pair.forget)

    async def answer(self, turns: Sequence[Turn], sampling: SamplingParams) -> Answer:
        clock = Stopwatch()
        finished: Finished | None = None
        async for event in self._runtime.answer(turns, replace(self._options, sampling=sampling)):
            if isinstance(event, Chunk):
                clock.token()
            elif isinstance(event, Finished):
                finished = event
        assert finished is not None
        if finished.reason in ("error", "cancelled"):
            raise BenchmarkError(f"{self.name}: {finished.error or 'the answer was cancelled'}")
        stats = finished.stats
        ttft_s, decode_s = clock.stop()
        measured = Measured(
            prompt_tokens=stats.prompt_tokens,
            completion_tokens=len(finished.tokens),
            finish_reason=finished.reason,
            ttft_s=ttft_s,
            decode_s=decode_s,
            own=OwnTiming(
                prompt_s=stats.prompt_s,
                decode_s=stats.decode_s,
                draft_s=stats.draft_s,
                verify_s=stats.verify_s,
                overhead_s=stats.overhead_s,
            ),
            target_passes=stats.target_passes or 0,
            drafted=stats.drafted,
            accepted=stats.accepted,
            digest=digest(finished.text),
        )
        return Answer(finished.text, finished.tokens, measured)


def digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


class Stopwatch:
    """Times an answer where it arrives: from the question to its first token, and to its end."""

    def __init__(self) -> None:
        self._asked = time.perf_counter()
        self._first: float | None = None

    def token(self) -> None:
        """Tokens have come."""
        if self._first is None:
            self._first = time.perf_counter()

    def stop(self) -> tuple[float, float]:
        """Seconds to the first token, and from there to now."""
        now = time.perf_counter()
        first = now if self._first is None else self._first
        return first - self._asked, now - first


def default_names(*, has_draft_model: bool) -> tuple[str, ...]:
    drafters = ("lookup", "model") if has_draft_model else ("lookup",)
    return (ADAPTIVE, *(f"{drafter}-{k}" for drafter in drafters for k in _LENGTHS))


def is_fixed(name: str) -> bool:
    """Whether the side of that name always drafts alike."""
    return _FIXED.fullmatch(name) is not None


def local_sides(
    names: Sequence[str], runtime: Runtime, options: AnswerOptions, *, has_draft_model: bool
) -> list[Side]:
    """The target alone, then the sides called `names`: `adaptive`, `lookup-K`, `model-K`.

    Raises BenchmarkError for names that mean nothing here.
    """
    alone = replace(options, drafting=False)
    sides: list[Side] = [LocalSide(ALONE, "the target alone", runtime, alone)]
    for name in dict.fromkeys(names):
        if name == ADAPTIVE:
            words = "drafter and draft length chosen by the controller"
            sides.append(LocalSide(name, words, runtime, options))
        elif name != ALONE:
            sides.append(_fixed_side(name, runtime, options, has_draft_model))
    return sides


def _fixed_side(
    name: str, runtime: Runtime, options: AnswerOptions, has_draft_model: bool
) -> LocalSide:
    match = _FIXED.fullmatch(name)
    if match is None or not 1 <= int(match[2]) <= MAX_DRAFT:
        raise BenchmarkError(
            f"there is no side {name!r}: name adaptive, lookup-K or model-K, K up to {MAX_DRAFT}"
        )
    length = int(match[2])
    if match[1] == "lookup":
        fixed = replace(options, drafter="lookup", draft_length=length)
        return LocalSide(name, f"drafts of {length} tokens looked up in the text", runtime, fixed)
    if not has_draft_model:
        raise BenchmarkError(f"the side {name} needs a draft model: name one with --draft")
    fixed = replace(options, drafter="model", draft_length=length)
    return LocalSide(name, f"drafts of {length} tokens by the draft model", runtime, fixed)
