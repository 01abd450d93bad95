"""The models behind a chat: loads a profile's pair and answers, all model work in one thread."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.backend import Backend, Emit, Event
from specchat.backends.kept_states import KeptStates
from specchat.backends.local import LocalBackend
from specchat.backends.opening import Opening, prepare_server
from specchat.backends.pass_costs import CostStore
from specchat.backends.preparation import prepare
from specchat.backends.verify_server.pair import RemoteOptions
from specchat.config import locations
from specchat.errors import SpecchatError
from specchat.models.registry import Profile, Registry
from specchat.models.selection import as_served, other_context
from specchat.wire.address import is_url
from specchat.wire.keys import Keys
from specchat.wire.network import NetworkThread
from specengine.cache.context import SavedCache
from specengine.chat.chat_template import Turn
from specengine.core.cancel import AbortFlag
from specengine.core.errors import CancelledError, SpecEngineError
from specengine.core.events import Finished, Progress
from specengine.core.statistics import Statistics
from specengine.core.thread import EngineThread
from specengine.llama.placement import GpuLayers
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.rules import LOSSY

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LOSSY = "the rule {} is lossy: with drafts the text is not distributed as the target's own"


class Runtime:
    """One loaded pair at a time, and one answer at a time."""

    def __init__(
        self,
        registry: Registry,
        *,
        n_threads: int | None = None,
        gpu_layers: GpuLayers = GpuLayers(),  # noqa: B008, it is immutable
        offline: bool = False,
        convert_drafts: bool = False,
        earlier: Callable[[str], Sequence[Sequence[int]]] | None = None,
        remote: RemoteOptions | None = None,
        states: KeptStates | None = None,
        reads_ahead: bool = False,
    ) -> None:
        """`offline`: connect to nothing, whatever the environment says. `convert_drafts`: to a
        cheaper type, where that is faster. `earlier`: token ids of earlier answers of the target
        with that name, to draft from; called in the engine thread.
        `states`: where the caches of chats are kept. `reads_ahead`: see `read_ahead`.
        """
        self.profile: Profile | None = None
        self._registry = registry
        self._n_threads = n_threads
        self._gpu_layers = gpu_layers
        self._offline = offline
        self._convert_drafts = convert_drafts
        self._earlier = earlier
        self._costs = CostStore(locations.pass_costs_file(), n_threads)
        self._cancel_loading = threading.Event()
        self._thread = EngineThread()
        self._abort = AbortFlag()
        self._cancels = 0
        """How often `cancel` was called: what waits for its turn may be cancelled meanwhile."""
        self._remote = remote or RemoteOptions()
        self._network: NetworkThread | None = None
        self._keys: Keys | None = None
        self._backend: Backend[Any] | None = None
        self._is_answering = False
        self._running: Future[None] | None = None
        self._reading: Future[None] | None = None
        self._states = states
        self._reads_ahead = reads_ahead
        self._load_s = 0.0

    async def load(self, profile: Profile, on_event: Callable[[Progress], None]) -> None:
        """Fetch, check and load what `profile` names, in place of what is loaded.

        `on_event` is called from other threads. Raises SpecchatError or SpecEngineError,
        CancelledError among them.
        """
        await self._take_turn()
        if self._abort.is_set():
            raise CancelledError("loading was cancelled")
        self._keys = self._keys or Keys(profile.target, self._remote.key_over_http)
        if is_url(profile.target):
            await self._connect(profile, self._keys, on_event)
            return
        ready = await asyncio.to_thread(
            prepare,
            profile,
            self._registry,
            on_event,
            self._cancel_loading,
            offline=self._offline or None,
            gpu_layers=self._gpu_layers,
            freed=self.gpu_bytes,
            convert_drafts=self._convert_drafts,
        )

        def open_() -> LocalBackend:
            files = [path for path in (ready.target, ready.draft) if path is not None]
            pair = Pair(
                ready.target,
                ready.draft,
                method=ready.method,
                vocabularies=ready.vocabularies,
                options=LoadOptions(
                    profile.n_ctx,
                    self._n_threads,
                    ready.use_extra_bufts,
                    self._gpu_layers,
                    self._costs.load(files),
                ),
                abort=self._abort,
                on_progress=_loading(on_event),
            )
            return LocalBackend(pair, self._states)

        await self._swap(profile, open_)

    @property
    def n_ctx(self) -> int:
        """Tokens of context that the loaded target has; 0 if that is not known."""
        return 0 if self._backend is None else self._backend.n_ctx

    @property
    def placement(self) -> str:
        """What of the loaded models is on which GPU, in one line; empty if nothing is."""
        return "" if self._backend is None else self._backend.placement

    @property
    def gpu_bytes(self) -> Mapping[str, int]:
        """What the loaded models take of each GPU's memory, by its name."""
        return {} if self._backend is None else self._backend.gpu_bytes

    async def answer(self, turns: Sequence[Turn], options: AnswerOptions) -> AsyncIterator[Event]:
        """Answer the last of `turns`. Always ends with exactly one Finished, errors included."""
        await self._take_turn()
        events: asyncio.Queue[Event] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def emit(event: Event) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        self._is_answering = True
        self._running = self._thread.submit(lambda: self._run(turns, options, emit))
        finished = False
        try:
            while not finished:
                event = await events.get()
                finished = isinstance(event, Finished)
                yield event
        finally:
            self._is_answering = False
            if not finished:
                self.cancel()  # the caller has gone away

    async def can_verify(self) -> bool:
        """Whether the loaded target is on a verify server that answers now."""
        return self._backend is not None and await self._backend.can_verify()

    async def read_ahead(self, turns: Sequence[Turn], typed: str, options: AnswerOptions) -> None:
        """Evaluate, while nobody waits, what the next prompt begins with: `turns`, and what is
        being typed after them. Ends when it is done, or something else begins, or at
        `stop_reading`. Of a target on a server nothing is read ahead.
        """
        if not self._reads_ahead or self._is_answering:
            return
        await self._idle()
        if not self._is_answering:
            self._abort.clear()
            self._reading = self._thread.submit(lambda: self._read(turns, typed, options))
            await asyncio.wrap_future(self._reading)

    def stop_reading(self) -> None:
        """Stop reading ahead, at once; what was read stays in the cache."""
        if self._reading is not None and not self._reading.done():
            self._abort.set()

    async def keep(self, turns: Sequence[Turn], typed: str, options: AnswerOptions) -> None:
        """Keep on disk what the target's cache holds of the chat, for when it is opened again."""
        states, chat_id = self._states, options.chat_id
        if states is None or chat_id is None or self._is_answering:
            return
        self.stop_reading()

        def copy() -> tuple[str, SavedCache] | None:
            backend = self._backend
            prompt = None if backend is None else backend.next_prompt(turns, typed, options)
            if backend is None or prompt is None:
                return None
            return backend.copy_to_keep(prompt, options)

        try:
            copied = await asyncio.wrap_future(self._thread.submit(copy))
            if copied is not None:
                await asyncio.to_thread(states.save, chat_id, *copied)
        except Exception:
            logger.exception("the state of chat %d is not kept", chat_id)

    async def run(self, work: Callable[[Pair], T]) -> T:
        """Do `work` on the loaded pair in the engine thread, after whatever it is doing."""

        def job() -> T:
            pair = None if self._backend is None else self._backend.pair
            if pair is None:
                raise SpecchatError("no model is loaded")
            return work(pair)

        return await asyncio.wrap_future(self._thread.submit(job))

    def cancel(self) -> None:
        """Stop the running answer or load, and those that wait; from any thread, at once."""
        self._cancels += 1
        self._abort.set()
        self._cancel_loading.set()

    async def close(self) -> None:
        """Stop whatever runs, free the models, end the thread."""
        self.cancel()
        if self._states is not None:
            self._states.close()
        await asyncio.wrap_future(self._thread.submit(self._unload))
        await asyncio.to_thread(self._thread.close)
        if self._network is not None:
            self._network.close()

    async def _connect(
        self, profile: Profile, keys: Keys, on_event: Callable[[Progress], None]
    ) -> None:
        """`load` for a target on a server."""
        if self._offline:
            raise SpecchatError(
                f"cannot connect to {profile.target}: specchat is offline (--offline or "
                "SPECCHAT_OFFLINE)"
            )
        network = self._network = self._network or NetworkThread()
        open_, served = await asyncio.to_thread(
            prepare_server,
            profile,
            self._registry,
            network,
            keys,
            on_event,
            self._cancel_loading,
            convert_drafts=self._convert_drafts,
        )
        if served is not None:
            profile = as_served(
                profile, name=served.name, system=served.system, sampling=served.sampling
            )
        how = Opening(
            self._remote,
            self._n_threads,
            self._gpu_layers,
            self._costs,
            self._abort,
            _loading(on_event),
        )
        await self._swap(profile, lambda: open_(how))

    async def _swap(self, profile: Profile, open_: Callable[[], Backend[Any]]) -> None:
        """Replace what is loaded by what `open_` loads."""

        def swap() -> None:
            self._unload()
            started = time.perf_counter()
            self._backend = open_()
            self._backend.notices += other_context(profile, self._backend.n_ctx)
            self._load_s = time.perf_counter() - started
            self.profile = profile

        await asyncio.wrap_future(self._thread.submit(swap))

    async def _take_turn(self) -> None:
        """Wait until nothing runs. The flags are then those of what begins now: set where it was
        cancelled while it waited.
        """
        cancels = self._cancels
        await self._idle()
        self._abort.clear()
        self._cancel_loading.clear()
        if self._cancels != cancels:
            self._abort.set()
            self._cancel_loading.set()

    async def _idle(self) -> None:
        """Stop reading ahead, and wait for the answer before this one: the abort flag belongs to it
        until it has ended.
        """
        while self._reading is not None and not self._reading.done():
            self.stop_reading()
            await asyncio.wait([asyncio.wrap_future(self._reading)])
        if self._running is not None:
            await asyncio.wrap_future(self._running)

    def _read(self, turns: Sequence[Turn], typed: str, options: AnswerOptions) -> None:
        """In the engine thread. What goes wrong is told when the question is asked."""
        backend = self._backend
        try:
            prompt = None if backend is None else backend.next_prompt(turns, typed, options)
            if backend is None or prompt is None:
                return
            self._measure(backend, options, lambda _: None)
            backend.recall(prompt, options)
            backend.read_ahead(prompt, options)
        except SpecEngineError as error:
            logger.info("not read ahead: %s", error)
        except Exception:
            logger.exception("reading ahead failed")

    def _run(self, turns: Sequence[Turn], options: AnswerOptions, emit: Emit) -> None:
        """In the engine thread: hand on every event, and a Finished whatever happens."""
        try:
            if self._abort.is_set():
                raise CancelledError("the answer was cancelled while it waited for its turn")
            for event in self._answer(turns, options, emit):
                emit(event)
        except CancelledError:
            emit(Finished("cancelled", "", (), Statistics()))
        except (SpecEngineError, SpecchatError) as error:
            emit(Finished("error", "", (), Statistics(), str(error)))
        except Exception as error:
            logger.exception("an answer failed")
            message = f"internal error ({type(error).__name__}: {error}); the log has more"
            emit(Finished("error", "", (), Statistics(), message))

    def _answer(self, turns: Sequence[Turn], options: AnswerOptions, emit: Emit) -> Iterator[Event]:
        backend = self._backend
        if backend is None:
            raise SpecchatError("no model is loaded")
        said = backend.support.check(options)
        prompt, notices = backend.encode(turns, options)
        notices, backend.notices = (*notices, *backend.notices), []  # of loading: once
        self._measure(backend, options, emit)
        backend.recall(prompt, options)
        if options.drafting and self._earlier is not None and self.profile is not None:
            backend.remember(self._earlier(self.profile.target))
        for event in backend.answer(prompt, options, emit):
            if isinstance(event, Finished):
                stats = replace(event.stats, load_s=self._load_s)
                if event.rule in LOSSY and stats.drafted:
                    notices = (*notices, _LOSSY.format(event.rule))
                event = replace(event, stats=stats, notices=(*notices, *event.notices, *said))
            yield event

    def _measure(self, backend: Backend[Any], options: AnswerOptions, emit: Emit) -> None:
        if backend.calibrate(options, emit):
            self._costs.save(backend.files, backend.costs)

    def _unload(self) -> None:
        if self._backend is not None:
            backend, self._backend, self.profile = self._backend, None, None
            self._costs.save(backend.files, backend.costs)
            backend.close()


def _loading(on_event: Callable[[Progress], None]) -> Callable[[str, float], None]:
    """What the engine calls while it loads: a model's name, and how much of it is there."""
    return lambda name, done: on_event(Progress("load", round(1000 * done), 1000, name))
