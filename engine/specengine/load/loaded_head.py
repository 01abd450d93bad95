"""Heads loaded beside their target, which records from now on what they read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specengine.cache.block_context import BlockContext
from specengine.cache.costs import PassCosts
from specengine.cache.head_context import HeadContext
from specengine.core.cancel import AbortFlag
from specengine.files.block_heads import DFLASH, block_shape
from specengine.files.gguf import GGUF
from specengine.files.head_files import target_layers
from specengine.llama.block_cache import BlockCache
from specengine.llama.head_cache import Eagle3Cache, HeadCache, HeadModel
from specengine.llama.layer_inputs import LayerInputs
from specengine.llama.model import LlamaModel
from specengine.llama.mtp_cache import FinalStates, MtpCache
from specengine.llama.placement import Placement, costs_name
from specengine.llama.threads import default_threads

if TYPE_CHECKING:
    from specengine.load.loaded_model import LoadedModel, LoadOptions

MTP = "mtp"


class LoadedHead:
    """A head and its cache. It must be closed before its target."""

    def __init__(
        self,
        name: str,
        cache: HeadCache | BlockCache,
        target: LoadedModel,
        options: LoadOptions,
        abort: AbortFlag,
        *,
        model: LlamaModel | None = None,
        placement: Placement | None = None,
    ) -> None:
        """`model`: the head's own, which is closed with it; None where it is the target's."""
        self.name = name
        self.abort = abort
        self.placement = placement
        self.repacked = options.use_extra_bufts
        self.path = None if model is None else model.path
        costs = PassCosts(options.costs.get(self.costs_name))
        self.context: HeadContext | BlockContext
        if isinstance(cache, BlockCache):
            self.context = BlockContext(cache, target.context, costs)
        else:
            self.context = HeadContext(cache, target.context, costs)
        self._cache, self._model = cache, model

    @property
    def costs_name(self) -> str:
        """What its costs are kept under."""
        if self.path is None:
            return self.name
        return costs_name(self.path.name, self.placement, repacked=self.repacked)

    @property
    def is_calibrated(self) -> bool:
        """As `FeatureContext.is_calibrated`."""
        return self.context.is_calibrated

    def calibrate(self) -> None:
        """Measure what drafts cost. Empties the cache; raises CancelledError."""
        self.context.calibrate()

    def measure_passes(self, *, prefix: int, repeats: int) -> dict[int, float]:
        """As `FeatureContext.measure_passes`."""
        return self.context.measure_passes(prefix=prefix, repeats=repeats)

    def close(self) -> None:
        self._cache.close()
        if self._model is not None:
            self._model.close()


def load_head(
    path: Path,
    header: GGUF,
    target: LoadedModel,
    n_embd: int,
    options: LoadOptions,
    abort: AbortFlag,
    on_progress: Callable[[float], None] | None = None,
    *,
    placement: Placement | None = None,
) -> LoadedHead:
    """Load a head of a `header` that `files.check_head` passed; `n_embd` is the target's.

    Raises ModelFileError, OutOfMemoryError, BackendError, CancelledError.
    """
    gpu = placement.shares if placement is not None else ()
    model = HeadModel(
        path,
        use_extra_bufts=options.use_extra_bufts,
        gpu=gpu,
        abort=abort,
        on_progress=on_progress,
    )
    try:
        features = LayerInputs(target.handle, target_layers(header), n_embd)
        cache = _open(
            header,
            model,
            target.handle,
            width=features.width,
            n_ctx=min(options.n_ctx, model.n_ctx_train),
            n_threads=options.n_threads or default_threads(),
            abort=abort,
            flash_attention=bool(gpu),
        )
    except BaseException:
        model.close()
        raise
    target.context.record(features)
    return LoadedHead(path.stem, cache, target, options, abort, model=model, placement=placement)


def _open(header: GGUF, model: LlamaModel, target: Any, **settings: Any) -> HeadCache | BlockCache:
    if header.architecture == DFLASH:
        return BlockCache(model, target, block_shape(header), **settings)
    return Eagle3Cache(model, target, **settings)


def load_own_heads(
    target: LoadedModel, n_embd: int, options: LoadOptions, abort: AbortFlag
) -> LoadedHead:
    """Use the heads that `target` was loaded with: `mtp.check_own_heads` passed its file.

    Raises ModelFileError, BackendError.
    """
    features = FinalStates(target.handle, n_embd)
    gpu = target.placement.shares if target.placement is not None else ()
    cache = MtpCache(
        target.model,
        target.handle,
        n_ctx=target.context.n_ctx,
        n_threads=options.n_threads or default_threads(),
        abort=abort,
        flash_attention=bool(gpu),
    )
    target.context.record(features)
    return LoadedHead(MTP, cache, target, options, abort)
