"""A runtime that says what a test wrote down, at the pace the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.backend import Event
from specchat.models.errors import DownloadCancelledError
from specchat.models.registry import Profile
from specengine.chat.chat_template import Turn
from specengine.core.events import Chunk, Finished, Progress
from specengine.core.statistics import Statistics


@dataclass
class Script:
    """One answer: pieces of text, and how it ends. `held` waits before its last piece, or before
    the last of `events`, which take the place of all else.
    """

    pieces: Sequence[str] = ()
    error: str | None = None
    notices: tuple[str, ...] = ()
    held: bool = False
    events: Sequence[Event] = ()


@dataclass
class FakeRuntime:
    """What the screen uses of a `specchat.backends.runtime.Runtime`. Answers `scripts` one after
    the other, then repeats the question. Token ids count up.
    """

    scripts: list[Script] = field(default_factory=list)
    load_error: Exception | None = None
    holds_load: bool = False
    """Whether loading waits for `load_gate`."""
    profile: Profile | None = None
    asked: list[list[Turn]] = field(default_factory=list)
    options: list[AnswerOptions] = field(default_factory=list)
    """Of each answer that was asked for."""
    within_reach: bool = False
    """Whether the target could verify."""
    loaded: list[str] = field(default_factory=list)
    running: int = 0
    most_running: int = 0
    closed: bool = False
    placement: str = ""
    gpu_bytes: dict[str, int] = field(default_factory=dict)
    as_served: Callable[[Profile], Profile] = lambda profile: profile
    """What is loaded where a profile is asked for: a server may say more of it."""
    read: list[tuple[list[Turn], str]] = field(default_factory=list)
    """What was read ahead: turns, and what was being typed."""
    stopped_reading: int = 0
    kept: list[tuple[int | None, list[Turn]]] = field(default_factory=list)
    """Chats whose state was kept, with their turns then."""

    def __post_init__(self) -> None:
        self.release = asyncio.Event()
        self.load_gate = asyncio.Event()
        self._cancelled = asyncio.Event()

    @property
    def n_ctx(self) -> int:
        return self.profile.n_ctx if self.profile else 0

    async def load(self, profile: Profile, on_event: Callable[[Progress], None]) -> None:
        self._cancelled.clear()
        self.loaded.append(profile.name)
        on_event(Progress("load", 420, 1000, profile.target))
        if self.holds_load:
            await self._wait_for(self.load_gate)
            if self._cancelled.is_set():
                raise DownloadCancelledError("download stopped")
        if self.load_error is not None:
            raise self.load_error
        self.profile = self.as_served(profile)

    async def answer(self, turns: Sequence[Turn], options: AnswerOptions) -> AsyncIterator[Event]:
        self._cancelled.clear()
        self.asked.append(list(turns))
        self.options.append(options)
        script = self.scripts.pop(0) if self.scripts else Script([f"You said: {turns[-1].text}"])
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            async for event in self._play(script):
                yield event
        finally:
            self.running -= 1

    async def _play(self, script: Script) -> AsyncIterator[Event]:
        for number, event in enumerate(script.events, 1):
            if script.held and number == len(script.events):
                await self._wait_for(self.release)
            await asyncio.sleep(0)
            yield event
        if script.events:
            return
        text, tokens = "", 0
        yield Progress("prompt", 20, 20, "reading")
        for number, piece in enumerate(script.pieces, 1):
            if script.held and number == len(script.pieces):
                await self._wait_for(self.release)
            await asyncio.sleep(0)
            if self._cancelled.is_set():
                yield Finished("cancelled", text, tuple(range(tokens)), statistics(tokens))
                return
            text += piece
            tokens += 1
            yield Chunk(piece, (tokens - 1,), statistics(tokens))
        yield Finished(
            "error" if script.error else "stop",
            text,
            tuple(range(tokens)),
            statistics(tokens),
            script.error,
            script.notices,
        )

    async def _wait_for(self, gate: asyncio.Event) -> None:
        waiters = [asyncio.create_task(event.wait()) for event in (gate, self._cancelled)]
        await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        for waiter in waiters:
            waiter.cancel()

    async def can_verify(self) -> bool:
        return self.within_reach

    def cancel(self) -> None:
        self._cancelled.set()

    async def read_ahead(self, turns: Sequence[Turn], typed: str, options: AnswerOptions) -> None:
        self.read.append((list(turns), typed))

    def stop_reading(self) -> None:
        self.stopped_reading += 1

    async def keep(self, turns: Sequence[Turn], typed: str, options: AnswerOptions) -> None:
        self.kept.append((options.chat_id, list(turns)))

    async def close(self) -> None:
        self.closed = True


def statistics(tokens: int) -> Statistics:
    """Of an answer of so many tokens: 3 of 4 draft tokens were accepted, and a pass took .1 s."""
    passes = max(0, tokens - 1) // 3 + 1
    return Statistics(
        prompt_tokens=20,
        completion_tokens=tokens,
        decode_s=passes * 0.1,
        rounds=passes,
        target_passes=passes,
        drafted=4 * passes,
        accepted=3 * passes,
    )
