"""A model with one context: weights, vocabulary, cache."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specengine.cache.calibrate import calibrate, is_calibrated, measure_passes
from specengine.cache.context import Context
from specengine.cache.costs import PassCosts
from specengine.core.cancel import AbortFlag
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from specengine.llama.placement import GpuLayers, Placement, costs_name
from specengine.llama.recurrent_cache import RecurrentKVCache
from specengine.llama.threads import default_threads
from specengine.load.state_key import state_key


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How models are loaded; None leaves the choice to the engine."""

    n_ctx: int = 4096
    n_threads: int | None = None
    use_extra_bufts: bool = True
    gpu_layers: GpuLayers = field(default_factory=GpuLayers)
    costs: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Pass costs by `placement.costs_name`, as an earlier run measured them."""


class LoadedModel:
    """A model with one context: weights, vocabulary, cache."""

    def __init__(
        self,
        path: Path,
        options: LoadOptions,
        abort: AbortFlag,
        max_rows: int,
        on_progress: Callable[[float], None] | None = None,
        *,
        placement: Placement | None = None,
        mask_token: int | None = None,
        own_heads: bool = False,
    ) -> None:
        """`placement` None: on the CPU. `mask_token`: the id that stands for tokens to be drafted,
        of a draft model that was trained with one. `own_heads`: load those for multi-token
        prediction that a target's file has, too. Raises OutOfMemoryError, ModelFileError,
        CancelledError.
        """
        gpu = placement.shares if placement is not None else ()
        self.abort = abort
        self.placement = placement
        self.repacked = options.use_extra_bufts
        self.mask_token = mask_token
        self.model = LlamaModel(
            path,
            use_extra_bufts=options.use_extra_bufts,
            gpu=gpu,
            own_heads=own_heads,
            abort=abort,
            on_progress=on_progress,
        )
        try:
            kind = RecurrentKVCache if self.model.is_recurrent else LlamaKVCache
            self._cache = kind(
                self.model,
                n_ctx=min(options.n_ctx, self.model.n_ctx_train),
                n_threads=options.n_threads or default_threads(),
                abort=abort,
                max_rows=max_rows,
                # On CPUs flash attention costs dearly in narrow passes and flips near-ties.
                flash_attention=bool(gpu),
            )
        except BaseException:
            self.model.close()
            raise
        self.vocab = self.model.vocab
        layers = [(share.device.name, share.n_layers) for share in gpu]
        self._parameters = f"{self._cache.n_ctx} {options.use_extra_bufts} {layers}"
        self.context = Context(self._cache, costs=PassCosts(options.costs.get(self.costs_name)))

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def path(self) -> Path:
        return self.model.path

    @property
    def costs_name(self) -> str:
        """What its costs are kept under."""
        return costs_name(self.path.name, self.placement, repacked=self.repacked)

    @property
    def handle(self) -> Any:
        """llama.cpp's context, for heads that go on from it."""
        return self._cache.handle

    @functools.cached_property
    def state_key(self) -> str:
        """See `specengine.load.state_key`. Raises OSError."""
        return state_key(self.path, f"{self._parameters} {self.context.recorded}")

    @property
    def is_calibrated(self) -> bool:
        """As `calibrate.is_calibrated`."""
        return is_calibrated(self.context)

    def calibrate(self) -> None:
        """As `calibrate.calibrate`."""
        calibrate(self.context)

    def measure_passes(self, *, prefix: int, repeats: int) -> dict[int, float]:
        """As `calibrate.measure_passes`."""
        return measure_passes(self.context, prefix=prefix, repeats=repeats)

    def close(self) -> None:
        self._cache.close()
        self.model.close()
