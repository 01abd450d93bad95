"""From a server that was found to what answers with its target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specchat.backends.backend import Backend
from specchat.backends.openai_chat.server import ChatServer
from specchat.backends.other_servers import PreparedChat, PreparedScoring
from specchat.backends.pass_costs import CostStore
from specchat.backends.scoring.pair import open_scoring
from specchat.backends.verify_server.pair import RemoteOptions, RemotePair
from specchat.backends.verify_server.preparation import PreparedRemote
from specchat.wire.network import NetworkThread
from specengine.core.cancel import AbortFlag
from specengine.llama.placement import GpuLayers
from specengine.load.loaded_model import LoadOptions


def open_remote(
    ready: PreparedRemote | PreparedScoring | PreparedChat,
    network: NetworkThread,
    options: RemoteOptions,
    *,
    n_threads: int | None,
    gpu_layers: GpuLayers,
    costs: CostStore,
    abort: AbortFlag,
    on_progress: Callable[[str, float], None],
) -> Backend[Any]:
    """In the engine thread: load what drafts here. `on_progress(file name, fraction)`.

    Raises RemoteError, ModelFileError, BackendError, CancelledError.
    """
    if isinstance(ready, PreparedChat):
        return ChatServer(
            ready.client,
            ready.model,
            network,
            abort,
            why=ready.why,
            predicts=options.predicted_outputs,
        )
    n_ctx = ready.server.n_ctx if isinstance(ready, PreparedScoring) else ready.model.n_ctx
    known = costs.load([ready.draft] if ready.draft is not None else [])
    load = LoadOptions(n_ctx, n_threads, ready.use_extra_bufts, gpu_layers, known)
    if isinstance(ready, PreparedScoring):
        return open_scoring(
            ready.server,
            ready.draft,
            ready.method,
            network,
            load,
            abort=abort,
            on_progress=on_progress,
        )
    return RemotePair(ready, network, load, options, abort=abort, on_progress=on_progress)
