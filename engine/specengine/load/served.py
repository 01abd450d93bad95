"""A model loaded for many sessions, working in a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from specengine.cache.costs import PassCosts
from specengine.cache.widths import STEPS
from specengine.core.cancel import AbortFlag
from specengine.core.limits import MAX_DRAFT
from specengine.core.thread import EngineThread
from specengine.files.gguf import read_gguf
from specengine.llama.batch_cache import LlamaBatchCache
from specengine.llama.model import LlamaModel
from specengine.llama.offload import load_smaller, plan
from specengine.llama.placement import Placement
from specengine.llama.threads import default_threads
from specengine.llama.vocab import LlamaVocab
from specengine.serve.scheduler import Scheduler
from specengine.serve.stable_parts import measure_costs, measure_part_step

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How a model is served; `n_ctx` tokens for each of `places` sessions at a time."""

    n_ctx: int = 4096
    places: int = 4
    n_threads: int | None = None
    use_extra_bufts: bool = True
    gpu_layers: int | None = None
    """As in `specengine.load.pair.LoadOptions`."""


class ServedModel:
    """Loads in the constructor, works until `close`. Made and closed from any one thread."""

    def __init__(
        self,
        path: Path,
        options: ServeOptions,
        *,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        """`on_progress` gets the loaded fraction. Raises ModelFileError, BackendError."""
        self._thread = EngineThread()
        self._abort = AbortFlag()
        self._closed = False
        try:
            self._thread.call(lambda: self._load(path, options, on_progress))
        except BaseException:
            self._thread.close()
            raise
        self._work: Future[None] = self._thread.submit(self.scheduler.run)

    def close(self, timeout: float | None = None) -> bool:
        """End every answer with the reason "shutdown", free the model. Once is enough.

        False where its thread hangs for `timeout` seconds: then nothing is free, and the process
        can only end by force.
        """
        if self._closed:
            return True
        self.scheduler.stop()
        self._abort.set()  # nobody waits for what a pass would yield now
        if not wait([self._work], timeout).done:
            return False
        self._closed = True
        self._thread.call(self._opened.close)
        self._thread.close()
        return True

    def _load(
        self, path: Path, options: ServeOptions, on_progress: Callable[[float], None] | None
    ) -> None:
        [placement] = plan(
            [read_gguf(path)],
            options.n_ctx,
            [options.gpu_layers],
            sequences=options.places,
            flash_attention=False,
        )
        load_smaller(
            placement,
            lambda smaller: self._load_on(smaller, path, options, on_progress),
            logger.warning,
        )

    def _load_on(
        self,
        placement: Placement,
        path: Path,
        options: ServeOptions,
        on_progress: Callable[[float], None] | None,
    ) -> None:
        with ExitStack() as opened:
            self._model = opened.enter_context(
                LlamaModel(
                    path,
                    use_extra_bufts=options.use_extra_bufts,
                    gpu=placement.shares,
                    on_progress=on_progress,
                )
            )
            self.vocab: LlamaVocab = self._model.vocab
            self.chat_template = self._model.chat_template
            self.n_ctx = min(options.n_ctx, self._model.n_ctx_train)
            cache = opened.enter_context(self._make_cache(options, step=STEPS[0]))
            self.step = measure_part_step(cache)
            """What parts of a pass are padded to, so that no session's text depends on the others;
            None where this build and model have no such step.
            """
            if (self.step or 1) > STEPS[0]:
                cache.close()
                cache = opened.enter_context(self._make_cache(options, step=self.step or 1))
            cache.step = self.step or 1
            costs = PassCosts()
            measure_costs(cache, costs, cache.step)
            self._opened = opened.pop_all()
        if self.step is None:
            logger.warning("texts may depend on the load, at near-ties: no width is stable here")
        self.scheduler = Scheduler(cache, self.vocab.eog, max_draft=MAX_DRAFT, costs=costs)

    def _make_cache(self, options: ServeOptions, step: int) -> LlamaBatchCache:
        """With room for every session's rows, where they are padded to `step`."""
        rows = step * options.places + 2 * MAX_DRAFT
        return LlamaBatchCache(
            self._model,
            n_sequences=options.places,
            n_ctx=self.n_ctx,
            n_threads=options.n_threads or default_threads(),
            abort=self._abort,
            max_rows=rows,
            n_batch=max(512, 4 * rows),
        )
