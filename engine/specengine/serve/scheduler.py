"""Batches all answers under way: each pass takes every session that has work.

Prompts are evaluated in chunks between, so that no stream stalls; how many hints enter a pass is
decided here, where it is known what a pass costs. Nothing of this changes any text.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from specengine.cache.costs import PassCosts
from specengine.core.errors import BackendError, CancelledError, SpecEngineError
from specengine.core.limits import MAX_DRAFT
from specengine.core.tokens import Tokens
from specengine.serve.allocation import allocate, padded
from specengine.serve.batch_cache import BatchCache
from specengine.serve.generation import Generation
from specengine.serve.places import Place, Places
from specengine.stream.committed import Ended, EndReason, Event

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PROMPT_CHUNK = 64  # prompt tokens in a pass that others wait for
_LATE_S, _LATE = 60.0, 4.0  # a step hangs after so long, and so many times what its pass costs


@dataclass(slots=True)
class _Running:
    """A generation at its place in the cache."""

    generation: Generation
    place: Place
    missing: int
    """Tokens of its text that the cache lacks; 1 once the prompt is evaluated."""

    def text(self) -> Tokens:
        return self.generation.transcript.tokens


@dataclass(slots=True)
class _Share:
    """What one generation has in a pass; `hints` is None while its prompt is not evaluated."""

    running: _Running
    tokens: Tokens
    hints: list[int] | None


@dataclass(frozen=True, slots=True)
class Load:
    """What a server is doing: sessions at work, waiting for a place, and holding one."""

    running: int
    waiting: int
    places_held: int


class Scheduler:
    """`submit`, `hint`, `cancel`, `release`, `stop` come from any thread, all else from one."""

    def __init__(
        self,
        cache: BatchCache,
        eog: frozenset[int],
        *,
        max_draft: int = MAX_DRAFT,
        costs: PassCosts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`max_draft`: hints of one session in a pass, at most. Every sequence of `cache` may ask
        for `cache.step` rows in one pass.
        """
        self._cache = cache
        self._eog = eog
        self._max_draft = max_draft
        self._clock = clock
        self.costs = costs or PassCosts()
        self.passes = 0
        self._places = Places(cache)
        self._waiting: list[Generation] = []
        self._running: list[_Running] = []
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._work = threading.Event()
        self._stopping = False
        self._late_at = math.inf
        """When the step under way has taken so long that it must be hanging."""
        self._over: Ended | None = None
        """How answers end that come when nobody takes orders any more."""
        self._gate = threading.Lock()  # so that none slips in while that begins

    # From any thread ---------------------------------------------------------------------------

    def submit(self, generation: Generation) -> None:
        """Begin as soon as there is a place; one generation of a session at a time."""
        self._order(lambda: self._waiting.append(generation), lambda over: _tell(generation, over))

    def hint(self, generation: Generation, prefix_hash: bytes, tokens: list[int]) -> None:
        """`tokens` may follow the text with `prefix_hash`."""
        self._order(lambda: generation.hints.add(prefix_hash, tokens))

    def call(self, work: Callable[[], T]) -> Future[T]:
        """Do `work`, which is quick, in the engine thread between two passes. Raises BackendError
        in the place of what it would have returned where that thread has ended.
        """
        done: Future[T] = Future()

        def order() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(work())
            except Exception as error:
                done.set_exception(error)

        self._order(
            order,
            lambda over: done.set_exception(BackendError(over.error or "the model is closed")),
        )
        return done

    def cancel(self, generation: Generation) -> None:
        """End it after the present pass; nothing happens where it has ended."""
        self._order(lambda: self._end(generation, Ended("cancelled")))

    def release(self, session: Hashable) -> None:
        """Forget what the cache has of `session`, whose generations must have been cancelled."""
        self._order(lambda: self._places.release(session))

    def stop(self) -> None:
        """End everything and let `run` return."""
        self._order(self._stop)

    @property
    def load(self) -> Load:
        return Load(len(self._running), len(self._waiting), self._places.held)

    @property
    def fault(self) -> str | None:
        """Why nobody gets answers any more; None while all is well, or after `stop`."""
        if self._over is not None:
            return self._over.error
        late_s = self._clock() - self._late_at
        return f"the model hangs: a step is {late_s:.0f} s late" if late_s > 0 else None

    # In the engine thread ----------------------------------------------------------------------

    def run(self) -> None:
        """Work until `stop`. Whatever happens, every generation is told how it ends."""
        over = Ended("error", error="the model's thread has ended: start the server again")
        try:
            while not self._stopping:
                self._work_or_wait()
            over = Ended("shutdown")
        finally:
            with self._gate:
                self._over = over
            self._take_orders()  # those that came too late are not left waiting
            self._end_all(over)

    def _work_or_wait(self) -> None:
        self._late_at = self._clock() + _LATE_S
        try:
            wait = self.step()
        except Exception as error:
            logger.exception("the scheduler failed")
            for running in self._running:
                running.place.spoil()  # nobody knows how far the pass had come
            self._end_all(Ended("error", error=f"internal error ({type(error).__name__})"))
            return
        self._late_at = math.inf
        if wait != 0 and not self._stopping:
            self._work.wait(wait)
        self._work.clear()

    def step(self) -> float | None:
        """At most one pass. Seconds until there may be work again; None: not before an order."""
        self._take_orders()
        self._admit()
        ready, wait = self._ready()
        if ready:
            self._evaluate(self._plan(ready))
            return 0.0
        return wait

    def _order(
        self, order: Callable[[], None], refuse: Callable[[Ended], None] = lambda over: None
    ) -> None:
        """Have `order` done in the engine thread; `refuse` is called here where that has ended."""
        with self._gate:
            over = self._over
            if over is None:
                self._orders.put(order)
                self._work.set()
        if over is not None:
            refuse(over)

    def _take_orders(self) -> None:
        while not self._orders.empty():
            try:
                self._orders.get()()
            except Exception:
                logger.exception("an order failed")

    def _stop(self) -> None:
        self._stopping = True
        self._end_all(Ended("shutdown"))

    def _admit(self) -> None:
        """Give a place to whoever waits, first come, first served."""
        for generation in list(self._waiting):
            try:
                place = self._places.take(generation.session)
                if place is None or place.busy:
                    continue
                missing = place.follow(generation.transcript.tokens)
            except SpecEngineError as error:
                self._end(generation, Ended("error", error=str(error)))
                continue
            self._waiting.remove(generation)
            place.busy = True
            generation.cached = len(generation.transcript) - missing
            self._running.append(_Running(generation, place, missing))

    def _ready(self) -> tuple[list[_Running], float | None]:
        """Who has work now; if nobody, seconds until the first has lost its patience.

        Nobody may be patient at a place that others wait for.
        """
        now = self._clock()
        ready: list[_Running] = []
        wait: float | None = None
        for running in self._running:
            generation = running.generation
            left = generation.committed_at + generation.patience_s - now
            waits = generation.takes_hints and not generation.next_hints(1)
            if running.missing > 1 or left <= 0 or not waits or self._waiting:
                ready.append(running)
            else:
                wait = left if wait is None else min(wait, left)
        return ready, wait

    def _plan(self, ready: list[_Running]) -> list[_Share]:
        reading = [running for running in ready if running.missing > 1]
        writing = [running for running in ready if running.missing <= 1]
        shares = self._prompt_shares(reading, len(writing))
        hints = [running.generation.next_hints(self._max_draft) for running in writing]
        chances = [r.generation.chances(len(h)) for r, h in zip(writing, hints, strict=True)]
        counts = allocate(
            chances,
            self.costs,
            step=self._cache.step,
            max_rows=self._cache.max_rows - len(shares),
            others=sum(len(share.tokens) for share in shares),
        )
        for running, own, n in zip(writing, hints, counts, strict=True):
            tokens = np.array([running.text()[-1], *own[:n]], dtype=np.int32)
            shares.append(_Share(running, tokens, own[:n]))
        return shares

    def _prompt_shares(self, reading: list[_Running], n_writing: int) -> list[_Share]:
        """The next chunk of prompts, the oldest first. Only a last chunk needs padding."""
        step = self._cache.step
        budget = self._cache.n_batch - self._cache.max_rows
        if n_writing:
            budget = min(budget, _PROMPT_CHUNK)
        budget -= budget % step
        shares = []
        for running in reading:
            n = min(running.missing, budget)
            if budget < step:
                break
            budget -= padded(n, step)
            start = len(running.text()) - running.missing
            hints: list[int] | None = [] if n == running.missing else None
            shares.append(_Share(running, running.text()[start : start + n], hints))
        return shares

    def _evaluate(self, shares: list[_Share]) -> None:
        parts = [
            share.running.place.part(
                share.tokens, 0 if share.hints is None else len(share.hints) + 1
            )
            for share in shares
        ]
        width = sum(len(part.tokens) for part in parts)
        self._late_at += _LATE * self.costs.seconds(width)
        before = self._cache.decode_s
        try:
            rows = self._cache.decode(parts)
        except SpecEngineError as error:
            self._fail(shares, error)
            return
        self.passes += 1
        pass_s = self._cache.decode_s - before
        if all(part.rows.stop > part.rows.start for part in parts):
            self.costs.observe(width, pass_s)
        for share, own_rows in zip(shares, rows, strict=True):
            running = share.running
            running.place.evaluated(share.tokens)
            running.missing -= len(share.tokens) - len(share.hints or ())
            if share.hints is not None:
                self._commit(running, share.hints, own_rows, pass_s)

    def _commit(self, running: _Running, hints: list[int], rows: np.ndarray, pass_s: float) -> None:
        generation = running.generation
        try:
            committed, ended = generation.verify(hints, rows, self._eog)
        except CancelledError:
            self._end(generation, Ended("cancelled"))
            return
        except SpecEngineError as error:
            self._end(generation, Ended("error", error=str(error)))
            return
        generation.committed_at = running.place.used_at = self._clock()
        _tell(generation, replace(committed, pass_s=pass_s))
        if ended is not None:
            self._end(generation, ended)
        else:
            running.missing = running.place.follow(running.text())

    def _fail(self, shares: list[_Share], error: SpecEngineError) -> None:
        """After a pass that did not finish: its sequences hold nobody knows what."""
        logger.warning("a pass over %d sessions failed: %s", len(shares), error)
        reason: EndReason = "cancelled" if isinstance(error, CancelledError) else "error"
        for share in shares:
            share.running.place.spoil()
            self._end(share.running.generation, Ended(reason, error=str(error)))

    def _end_all(self, ended: Ended) -> None:
        for generation in [*self._waiting, *(r.generation for r in self._running)]:
            self._end(generation, ended)

    def _end(self, generation: Generation, ended: Ended) -> None:
        if generation in self._waiting:
            self._waiting.remove(generation)
            _tell(generation, ended)
            return
        for running in self._running:
            if running.generation is generation:
                self._running.remove(running)
                running.place.busy = False
                _tell(generation, ended)
                return


def _tell(generation: Generation, event: Event) -> None:
    """One who cannot be told is nobody else's concern."""
    try:
        generation.on_event(event)
    except Exception:
        logger.exception("an event of an answer was lost")
