"""A scheduler over a scripted model, and what the answers of its sessions are told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from specengine.cache.costs import PassCosts
from specengine.core.drafter import Drafter
from specengine.sampling import SamplingParams
from specengine.serve.generation import Generation
from specengine.serve.scheduler import Scheduler
from specengine.stream.committed import Committed, Ended, Event
from specengine.stream.transcript import Transcript
from support.fake_batch_cache import FakeBatchCache
from support.fakes import Model, markov

V = 12
MODEL = markov(V, seed=3)
FLAT = dict.fromkeys(range(1, 33), 0.02)


class Clock:
    now = 1000.0

    def __init__(self) -> None:
        self.before_read: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        self.before_read()
        return self.now


class Server:
    """A scheduler over a scripted model, run to the end by hand."""

    def __init__(self, model: Model = MODEL, *, eog: tuple[int, ...] = (), **cache: int) -> None:
        self.cache = FakeBatchCache(model, V, **cache)
        self.clock = Clock()
        costs = PassCosts(FLAT)
        self.scheduler = Scheduler(self.cache, frozenset(eog), costs=costs, clock=self.clock)
        self.events: dict[object, list[Event]] = {}
        self.died_of: BaseException | None = None

    def ask(
        self,
        session: str,
        prompt: list[int],
        n: int,
        *,
        temperature: float = 0.0,
        seed: int = 1,
        frequency_penalty: float = 0.0,
        patience_s: float = 0.0,
        grammar: Any = None,
        drafter: Drafter | None = None,
    ) -> Generation:
        events = self.events[session] = []
        generation = Generation(
            session,
            Transcript(prompt),
            SamplingParams(temperature=temperature, seed=seed, frequency_penalty=frequency_penalty),
            events.append,
            max_tokens=n,
            patience_s=patience_s,
            grammar=grammar,
            drafter=drafter,
        )
        self.scheduler.submit(generation)
        return generation

    def run(self) -> None:
        while self.scheduler.step() == 0.0:
            pass

    def wait_for_end(self, session: str) -> Ended:
        """While the scheduler runs in a thread of its own."""
        deadline = time.monotonic() + 20
        while not any(isinstance(event, Ended) for event in self.events[session]):
            assert time.monotonic() < deadline, f"{session} has no end"
            time.sleep(0.001)
        return self.ended(session)

    def said(self, session: str) -> list[int]:
        committed = [e for e in self.events[session] if isinstance(e, Committed)]
        return [token for event in committed for token in event.tokens]

    def ended(self, session: str) -> Ended:
        *before, last = self.events[session]
        assert isinstance(last, Ended)
        assert not any(isinstance(event, Ended) for event in before)
        return last
