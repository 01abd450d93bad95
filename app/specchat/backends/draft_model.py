"""A draft model for a remote target: the GPU of this machine is its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from specengine.core.cancel import AbortFlag
from specengine.files.gguf import read_gguf
from specengine.llama.offload import load_smaller, plan
from specengine.load.loaded_model import LoadedModel, LoadOptions


def load_draft_model(
    path: Path,
    options: LoadOptions,
    abort: AbortFlag,
    on_progress: Callable[[str, float], None],
    on_notice: Callable[[str], None],
) -> LoadedModel:
    """Load it on the GPU as far as it fits, or as `options` say; in the engine thread.

    `on_progress(file name, fraction)`; `on_notice` hears where less than planned had room. Raises
    ModelFileError, BackendError, CancelledError.
    """
    [placement] = plan([read_gguf(path)], options.n_ctx, [options.gpu_layers.draft])
    return load_smaller(
        placement,
        lambda smaller: LoadedModel(
            path,
            options,
            abort,
            1,
            lambda done: on_progress(path.name, done),
            placement=smaller,
        ),
        lambda notice: on_notice(f"{path.name}: {notice}"),
    )
