"""A head loaded beside its target, which records from now on what the head reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from specengine.cancel import AbortFlag
from specengine.costs import PassCosts
from specengine.drafters import Drafter
from specengine.drafters.head import HeadDrafter
from specengine.gguf import read_gguf
from specengine.head_context import HeadContext
from specengine.heads import check_head, target_layers
from specengine.llama.head_cache import Eagle3Cache, HeadModel
from specengine.llama.layer_inputs import LayerInputs
from specengine.llama.threads import default_threads
from specengine.placement import Placement
from specengine.rules import AcceptanceRule
from specengine.sampling import Transforms

if TYPE_CHECKING:
    from specengine.pair import LoadedModel, LoadOptions


class LoadedHead:
    """Weights, cache, and the target's features. It must be closed before its target."""

    def __init__(
        self,
        path: Path,
        target: LoadedModel,
        options: LoadOptions,
        abort: AbortFlag,
        on_progress: Callable[[float], None] | None = None,
        *,
        placement: Placement | None = None,
    ) -> None:
        """Raises ModelFileError for a head that is not the target's, OutOfMemoryError,
        BackendError, CancelledError.
        """
        header, target_header = read_gguf(path), read_gguf(target.model.path)
        check_head(target_header, header)
        gpu = placement.shares if placement is not None else ()
        self.abort = abort
        self.placement = placement
        self._ends = target.vocab.eog
        self.model = HeadModel(
            path,
            use_extra_bufts=options.use_extra_bufts,
            gpu=gpu,
            abort=abort,
            on_progress=on_progress,
        )
        try:
            features = LayerInputs(target.handle, target_layers(header), target_header.n_embd)
            self._cache = Eagle3Cache(
                self.model,
                target.handle,
                width=features.width,
                n_ctx=min(options.n_ctx, self.model.n_ctx_train),
                n_threads=options.n_threads or default_threads(),
                abort=abort,
                flash_attention=bool(gpu),
            )
        except BaseException:
            self.model.close()
            raise
        target.context.record(features)
        costs = PassCosts(options.costs.get(path.name))
        self.context = HeadContext(self._cache, target.context, costs)

    @property
    def name(self) -> str:
        return self.model.path.stem

    def drafter(self, transforms: Transforms, rule: AcceptanceRule) -> Drafter:
        """The drafter of one answer."""
        return HeadDrafter(self.name, self.context, self._ends, transforms, rule, self.abort)

    def calibrate(self) -> None:
        """Measure what rows cost. Empties the cache; raises CancelledError."""
        self.context.calibrate()

    def measure_passes(self, *, prefix: int, repeats: int) -> dict[int, float]:
        """Median seconds of a draft step, as of a pass over one token. Empties the cache."""
        return {1: self.context.measure_step(prefix=prefix, repeats=repeats)}

    def close(self) -> None:
        self._cache.close()
        self.model.close()
