"""Drafts here, passes there, a line between: hybrid against plain streaming and asking rounds.

Server and client are two processes, each on a core of its own where the platform allows; a proxy
delays what they say to each other. All llama.cpp work here happens in the calling thread.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from remote.delay_line import DelayProxy, Line
from remote.report import HybridReport, HybridSample, Way, rows_of
from servers.specchat_serve import THREADS, cores, pinned, resolved, serving
from specchat.backends.answer_options import AnswerOptions
from specchat.backends.verify_server import client as server
from specchat.backends.verify_server.pair import RemoteOptions, RemotePair, wire_settings
from specchat.backends.verify_server.preparation import prepare_remote
from specchat.backends.verify_server.stream import OnLoss, RemoteStream, Request
from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.room import require_room
from specchat.benchmark.sides import digest
from specchat.benchmark.suite import Item
from specchat.doctor.machine import describe_file, describe_machine
from specchat.errors import SpecchatError
from specchat.models.ensure import ensure_model
from specchat.models.registry import Profile, Registry
from specchat.version import __version__
from specchat.wire.keys import Keys
from specchat.wire.network import NetworkThread
from specengine.chat.chat_template import Turn, encode_chat
from specengine.core.cancel import AbortFlag
from specengine.core.errors import SpecEngineError
from specengine.core.events import Finished
from specengine.core.statistics import Statistics
from specengine.load.loaded_model import LoadOptions
from specengine.rules.coupled import CoupledRule
from specengine.sampling import SamplingParams, Transforms
from specengine.stream.committed import Committed, Ended
from specengine.stream.transcript import Transcript

ROUND_TRIPS_MS = (0.0, 20.0, 50.0, 100.0, 200.0)
ASKING_DRAFT_LENGTH = 4

_WAYS: tuple[Way, ...] = ("streaming", "hybrid", "asking")
_PATIENCE_MS = 60_000.0  # the target waits for every draft
_ON_LOSS: OnLoss = "stop"  # the server does not come back: this run started it
_POLL_S = 0.05
_SEED = 7


@dataclass(frozen=True, slots=True)
class HybridPlan:
    """What to measure."""

    profile: Profile
    items: tuple[Item, ...]
    sampling: SamplingParams
    round_trips_ms: tuple[float, ...] = ROUND_TRIPS_MS
    max_tokens: int = 64


@dataclass(frozen=True, slots=True)
class HybridOutcome:
    report: HybridReport
    error: Exception | None
    """What ended the run before its time, unless it was interrupted."""


def run(plan: HybridPlan, registry: Registry, say: Callable[[str], None]) -> HybridOutcome:
    """Measure what `plan` says.

    Interrupted (Ctrl-C) or broken while it measures, it returns what it has; before that it raises
    KeyboardInterrupt, SpecchatError or SpecEngineError.
    """
    if plan.profile.draft_model is None:
        raise BenchmarkError("a hybrid run needs a draft model: name one with --draft")
    mine = cores()
    two = (mine[0], mine[-1]) if len(mine) > 1 else None
    target = resolved(plan.profile.target)
    with ExitStack() as stack:
        say(f"starting a server of {plan.profile.target}")
        server = stack.enter_context(serving(target, plan.profile.n_ctx, two and two[0]))
        stack.enter_context(pinned(two and two[1]))
        line = stack.enter_context(DelayProxy(server.url))
        client = Client(plan, registry, line.url, stack)
        client.require_room()
        compose = _composer(plan, registry, client, two)
        client.warm_up()
        samples: list[HybridSample] = []
        error: Exception | None = None
        complete = False
        try:
            for step, sample in enumerate(_measure(plan, client, line), start=1):
                say(f"{step}: {sample.round_trip_ms:g} ms, {sample.prompt}, {sample.way}")
                samples.append(sample)
            complete = True
        except KeyboardInterrupt:
            pass  # there is something to show
        except (SpecchatError, SpecEngineError) as failure:
            error = failure
            if server.has_ended:
                error = BenchmarkError(f"the server has ended; its log ends: {server.last_words()}")
        return HybridOutcome(compose(samples, complete), error)


def _composer(
    plan: HybridPlan, registry: Registry, client: Client, pinned_to: tuple[int, int] | None
) -> Callable[[Sequence[HybridSample], bool], HybridReport]:
    """Makes a report of samples; what does not change while measuring is found out now."""
    started_at = datetime.now(UTC)
    machine = describe_machine(THREADS)
    # The server runs on this machine: what it fetched, if anything, is in the folder of models.
    target_file = describe_file(ensure_model(registry.resolve(plan.profile.target)))
    draft_file = describe_file(client.draft)

    def compose(samples: Sequence[HybridSample], complete: bool) -> HybridReport:
        pass_s, draft_s = client.passes.medians(), client.draft_s
        return HybridReport(
            specchat=__version__,
            started_at=started_at,
            complete=complete,
            machine=machine,
            profile=plan.profile.name,
            target=client.target,
            target_file=target_file,
            draft=draft_file.name,
            draft_file=draft_file,
            cpu=machine.cpu,
            pinned=pinned_to,
            sampling=plan.sampling,
            max_tokens=plan.max_tokens,
            asking_draft_length=ASKING_DRAFT_LENGTH,
            pass_s=pass_s,
            draft_s=draft_s,
            rows=rows_of(samples, pass_s, draft_s, ASKING_DRAFT_LENGTH),
            samples=tuple(samples),
        )

    return compose


def _measure(plan: HybridPlan, client: Client, line: DelayProxy) -> Iterator[HybridSample]:
    """Each item in all three ways, one right after the other; which one begins changes."""
    for round_trip_ms in plan.round_trips_ms:
        line.line = Line(round_trip_s=round_trip_ms / 1000)
        for i, item in enumerate(plan.items):
            for way in (*_WAYS[i % 3 :], *_WAYS[: i % 3]):
                up, down = line.traffic.up, line.traffic.down
                tokens, stats, text = client.answer(item, way)
                if len(tokens) < 2 or not stats.decode_s:
                    continue
                yield HybridSample(
                    round_trip_ms=round_trip_ms,
                    category=item.category,
                    prompt=item.id,
                    way=way,
                    tokens=len(tokens),
                    decode_s=stats.decode_s,
                    passes=stats.target_passes,
                    drafted=stats.drafted,
                    accepted=stats.accepted,
                    corrected=stats.corrected,
                    bytes_up=line.traffic.up - up,
                    bytes_down=line.traffic.down - down,
                    digest=digest(text),
                )


class PassClock(server.VerifyServer):
    """Takes the time of the server's passes by the server's own clock, while `on`."""

    on = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._seconds: defaultdict[int, list[float]] = defaultdict(list)

    async def generate(self, session: str, body: dict[str, Any]) -> AsyncIterator[server.Line]:
        last: int | None = None
        async for line in super().generate(session, body):
            if line.tokens:
                if last is not None and self.on:
                    self._seconds[line.drafted + 1].append((line.t_us - last) / 1e6)
                last = line.t_us
            yield line

    def forget(self) -> None:
        """Begin anew."""
        self._seconds.clear()

    def medians(self) -> dict[int, float]:
        """v(n) by width."""
        return {n: statistics.median(taken) for n, taken in sorted(self._seconds.items())}


class Client:
    """The draft model and a session with the server, in the calling thread."""

    def __init__(self, plan: HybridPlan, registry: Registry, url: str, stack: ExitStack) -> None:
        self._plan = plan
        system = plan.profile.system
        self._system = [] if system is None else [Turn("system", system)]
        network = NetworkThread()
        stack.callback(network.close)
        profile = plan.profile.model_copy(update={"target": url})
        ready = prepare_remote(profile, registry, network, Keys(url), _nothing, threading.Event())
        assert ready is not None, "it is our own server"
        assert ready.draft is not None
        self.target, self.draft = ready.model.name, ready.draft
        self.passes = PassClock(ready.server.address, None)
        network.call(ready.server.close())
        self._pair = InRounds(
            replace(ready, server=self.passes, method="model"),
            network,
            LoadOptions(ready.model.n_ctx, THREADS, ready.use_extra_bufts),
            RemoteOptions(on_loss=_ON_LOSS),
            abort=AbortFlag(),
            on_progress=lambda name, done: None,
        )
        stack.callback(self._pair.close)

    @property
    def draft_s(self) -> float:
        """Seconds for a draft token."""
        [costs] = self._pair.costs.values()
        return costs.seconds(1)

    def require_room(self) -> None:
        """Raises BenchmarkError for an item whose first turn is too long."""
        asked = [item.model_copy(update={"turns": item.turns[:1]}) for item in self._plan.items]
        require_room(self._pair, self._system, asked, self._plan.max_tokens)

    def warm_up(self) -> None:
        """One answer of each way that does not count."""
        item = Item(id="", category="", turns=("Count to ten.",))
        for way in _WAYS:
            self.answer(item, way, max_tokens=8)
        self.passes.forget()

    def answer(
        self, item: Item, way: Way, max_tokens: int | None = None
    ) -> tuple[Sequence[int], Statistics, str]:
        """Tokens, statistics and text of an answer to the item's first turn."""
        pair, most = self._pair, max_tokens or self._plan.max_tokens
        turns = [*self._system, Turn("user", item.turns[0])]
        prompt = encode_chat(pair.chat_template, turns, pair.vocab)
        sampling = self._plan.sampling.model_copy(update={"seed": _SEED})
        self.passes.on = way != "asking"
        if way == "asking":
            return pair.in_rounds(prompt, sampling, ASKING_DRAFT_LENGTH, most)
        events = pair.answer(
            prompt, AnswerOptions(sampling, max_tokens=most, drafting=way == "hybrid"), _nothing
        )
        finished = [event for event in events if isinstance(event, Finished)][-1]
        if finished.reason == "error":
            raise BenchmarkError(f"{way}: {finished.error}")
        return finished.tokens, finished.stats, finished.text


class InRounds(RemotePair):
    """A pair that can also draft, ask, and wait, as programs do that have only requests."""

    def in_rounds(
        self, prompt: Sequence[int], sampling: SamplingParams, k: int, max_tokens: int
    ) -> tuple[Sequence[int], Statistics, str]:
        """Rounds of k draft tokens, each sent whole; the target waits for them as well."""
        request = Request(wire_settings(sampling), _SEED, max_tokens, _PATIENCE_MS, _ON_LOSS)
        stream = RemoteStream(self._network, self._connection, prompt, request)
        rule, transforms = CoupledRule(sampling), Transforms(sampling)
        [drafter] = self._drafting.drafters("model", transforms, rule)
        text, stats = Transcript(prompt), Statistics(prompt_tokens=len(prompt))
        started: float | None = None
        try:
            ended = False
            while not ended:
                for event in stream.wait(_POLL_S):
                    if isinstance(event, Ended):
                        if event.error is not None:
                            raise BenchmarkError(f"asking: {event.error}")
                        ended = True
                    elif isinstance(event, Committed):
                        started = _count(event, stats, started)
                        text.extend(event.tokens)
                        drafter.offer(text.tokens)
                        draft = drafter.propose(text.tokens, k)
                        stream.hint(len(text), text.hash, draft.tokens)
        except SpecEngineError as error:
            raise BenchmarkError(f"asking: {error}") from error
        finally:
            stream.close()
        tokens = text.tokens[len(prompt) :].tolist()
        pieces = b"".join(self.vocab.piece(token) for token in tokens)
        return tokens, stats, pieces.decode("utf-8", "replace")


def _count(event: Committed, stats: Statistics, started: float | None) -> float:
    """When the first token came."""
    now = time.perf_counter()
    if started is None:
        return now
    stats.count_round(event.drafted, event.accepted)
    stats.decode_s = now - started
    return started


def _nothing(event: object) -> None:
    """Nobody watches."""
