"""A remote target, whose stream is a scheduler in this thread."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from specengine.core.events import Finished
from specengine.drafters.model import ModelDrafter
from specengine.sampling import SamplingParams
from specengine.serve.generation import Generation
from specengine.serve.scheduler import Scheduler
from specengine.stream.committed import Event
from specengine.stream.target_stream import StreamEvent
from specengine.stream.transcript import Transcript
from support.fake_batch_cache import FakeBatchCache
from support.fakes import Model, markov
from support.rig import Rig

V = 12
MODEL = markov(V, seed=3)
SAMPLING = SamplingParams(temperature=0.7, seed=11)


class FakeStream:
    """A scheduler behind a line that may lose hints, and on which tokens arrive late."""

    def __init__(
        self,
        model: Model,
        prompt: Sequence[int],
        n: int,
        *,
        eog: tuple[int, ...] = (),
        loss: float = 0.0,
        lead: int = 6,
        speed: float = 0.6,
    ) -> None:
        self.lead = lead
        self.lost: str | None = None
        self.closed = False
        self.hints: list[list[int]] = []
        self._rng = random.Random(1)
        self._loss = loss
        self._speed = speed
        self._arriving: list[Event] = []
        self._scheduler = Scheduler(FakeBatchCache(model, V), frozenset(eog))
        self._generation = Generation(
            "a", Transcript(prompt), SAMPLING, self._arriving.append, max_tokens=n
        )
        self._scheduler.submit(self._generation)

    def wait(self, timeout: float) -> list[StreamEvent]:
        if self._rng.random() < self._speed:  # several hints arrive between two passes
            self._scheduler.step()
        n = self._rng.randint(0, len(self._arriving))
        arrived = self._arriving[:n]
        del self._arriving[:n]
        return list(arrived)

    def hint(self, pos: int, prefix_hash: bytes, tokens: Sequence[int]) -> None:
        self.hints.append(list(tokens))
        if self._rng.random() >= self._loss:
            self._scheduler.hint(self._generation, prefix_hash, list(tokens))

    def close(self) -> None:
        self.closed = True


def drafter(model: Model, *, n_ctx: int = 256) -> ModelDrafter:
    rig = Rig(model, model, n_vocab=V, sampling=SAMPLING, rule="coupled", draft_n_ctx=n_ctx)
    assert isinstance(rig.drafter, ModelDrafter)
    return rig.drafter


def plain(model: Model, prompt: list[int], n: int, **options: Any) -> Finished:
    return Rig(model, n_vocab=V, sampling=SAMPLING, rule="coupled").run(
        prompt, max_tokens=n, **options
    )
