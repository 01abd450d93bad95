"""Sessions: the transcript of each client, and the answer that is being made for it.

All of this happens in the thread of the event loop; what the engine reports is handed over to it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from specchat.server.refusal import Refusal
from specengine.core.tokens import Tokens, common_prefix
from specengine.serve.generation import Generation
from specengine.stream.committed import Committed, Ended, Event
from specengine.stream.transcript import Transcript

_MAX_UNREAD = 4096  # events that a client may leave unread


def now_us() -> int:
    """The server's clock in microseconds; only differences mean anything."""
    return time.monotonic_ns() // 1000


@dataclass(eq=False)
class Answer:
    """A generation under way: its number in the session, and events that nobody has read yet."""

    gen: int
    generation: Generation
    cancel: Callable[[Generation], None]
    events: asyncio.Queue[tuple[Event, int]] = field(default_factory=asyncio.Queue)
    _full: bool = False

    async def next(self, patience_s: float) -> tuple[Event, int] | None:
        """The next event and its time; None after `patience_s` seconds without one."""
        try:
            async with asyncio.timeout(patience_s):
                return await self.events.get()
        except TimeoutError:
            return None

    def put(self, event: Event, at: int) -> None:
        """Keep `event` for the reader. One who does not read loses the rest of the answer."""
        if not self._full and self.events.qsize() >= _MAX_UNREAD:
            self._full = True
            self.cancel(self.generation)
        if not self._full or isinstance(event, Ended):
            self.events.put_nowait((event, at))


@dataclass(eq=False)
class Session:
    """What a server knows of one client's text. The client's own transcript is the truth."""

    owner: str
    id: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    transcript: Transcript = field(default_factory=Transcript)
    answer: Answer | None = None
    connections: int = 0
    """Streams of answers. Uploads of hints do not count: when a client that only uploads goes
    away, nobody notices.
    """
    used_at: float = field(default_factory=time.monotonic)
    gens: int = 0
    is_kept: bool = False
    """Whether it is for any later text of its owner that goes on from its own."""

    @property
    def is_idle(self) -> bool:
        return self.answer is None and self.connections == 0

    def touch(self) -> None:
        self.used_at = time.monotonic()

    def begin(
        self,
        make: Callable[[Callable[[Event], None]], Generation],
        cancel: Callable[[Generation], None],
        observe: Callable[[Event], None],
    ) -> Answer:
        """A new answer. `make(on_event)` makes its generation, `cancel` ends it early, `observe`
        gets every event, whether anybody reads it or not.
        """
        loop = asyncio.get_running_loop()
        self.gens += 1

        def on_event(event: Event) -> None:  # in the engine thread
            at = now_us()
            loop.call_soon_threadsafe(receive, event, at)

        def receive(event: Event, at: int) -> None:
            observe(event)
            self._receive(answer, event, at)

        answer = self.answer = Answer(self.gens, make(on_event), cancel)
        return answer

    def _receive(self, answer: Answer, event: Event, at: int) -> None:
        if answer is self.answer:
            if isinstance(event, Committed):
                self.transcript.extend(event.tokens)
            else:
                self.answer = None
            self.touch()
        answer.put(event, at)


class Sessions:
    """All sessions, each of which belongs to one key."""

    def __init__(self, *, ttl_s: float, per_owner: int, close: Callable[[Session], None]) -> None:
        """`close` is called with each session that ends: deleted, or unused for `ttl_s`."""
        self.ttl_s = ttl_s
        self._per_owner = per_owner
        self._close = close
        self._all: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._all)

    def create(self, owner: str) -> Session:
        """Where the key has all the sessions that it may have, the idle one that was used least
        recently gives way. Raises Refusal, 429, if none is idle.
        """
        self.expire()
        own = [session for session in self._all.values() if session.owner == owner]
        if len(own) >= self._per_owner:
            idle = [session for session in own if session.is_idle]
            if not idle:
                raise Refusal(
                    429,
                    "sessions",
                    f"all {self._per_owner} sessions of this key are in use: end one first",
                    headers={"Retry-After": "10"},
                )
            self.delete(min(idle, key=lambda session: session.used_at))
        session = Session(owner)
        self._all[session.id] = session
        return session

    def resume(self, owner: str, tokens: Tokens) -> Session:
        """The kept session whose text `tokens` go on from, the most of it, else a new one.

        Nothing of a session is dropped that is longer than what is used of it.
        """
        best, best_common = None, 0
        for session in self._all.values():
            if session.owner != owner or not session.is_kept or session.connections:
                continue
            common = common_prefix(tokens, session.transcript.tokens)
            if common > best_common and 2 * common >= len(session.transcript):
                best, best_common = session, common
        if best is None:
            best = self.create(owner)
            best.is_kept = True
        best.touch()
        return best

    def get(self, owner: str, session_id: str) -> Session:
        """Raises Refusal, 410, for one that is gone, never was, or belongs to another key."""
        session = self._all.get(session_id)
        if session is None or session.owner != owner:
            raise Refusal(410, "gone", "there is no such session, or no longer: create one")
        session.touch()
        return session

    def delete(self, session: Session) -> None:
        if self._all.pop(session.id, None) is not None:
            self._close(session)

    def expire(self) -> None:
        """End the idle sessions that were not used for `ttl_s`."""
        oldest = time.monotonic() - self.ttl_s
        for session in list(self._all.values()):
            if session.is_idle and session.used_at < oldest:
                self.delete(session)
