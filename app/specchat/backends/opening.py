"""From an address to what answers there: connected, known and checked, then loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import httpx

from specchat.backends.backend import Backend
from specchat.backends.cheaper_drafts import cheaper
from specchat.backends.openai_chat.server import ChatClient, ChatServer, choose_model
from specchat.backends.pass_costs import CostStore
from specchat.backends.preparation import draft_method, fetch, require_llama
from specchat.backends.scoring.pair import ENGINES, ScoringServer, open_scoring
from specchat.backends.trials import try_out
from specchat.backends.verify_server.client import ServedProfile
from specchat.backends.verify_server.pair import RemoteOptions, RemotePair
from specchat.backends.verify_server.preparation import prepare_remote
from specchat.models.registry import Profile, Registry
from specchat.wire.address import parse_address
from specchat.wire.errors import RemoteError
from specchat.wire.http import explain
from specchat.wire.keys import Keys
from specchat.wire.network import NetworkThread
from specengine.core.cancel import AbortFlag
from specengine.core.events import Progress
from specengine.files.language_model import read_draft
from specengine.llama.placement import GpuLayers
from specengine.load.loaded_model import LoadOptions

_NO_DRAFT_MODEL = "to verify drafts, name a draft model that has its vocabulary"


@dataclass(frozen=True, slots=True)
class Opening:
    """What every kind of target on a server is opened with."""

    remote: RemoteOptions
    n_threads: int | None
    gpu_layers: GpuLayers
    costs: CostStore
    abort: AbortFlag
    on_progress: Callable[[str, float], None]
    """Called with a file's name and the fraction of it that is loaded."""

    def load_options(self, draft: Path | None, n_ctx: int, use_extra_bufts: bool) -> LoadOptions:
        """How to load what drafts here."""
        known = self.costs.load([] if draft is None else [draft])
        return LoadOptions(n_ctx, self.n_threads, use_extra_bufts, self.gpu_layers, known)


Open = Callable[[Opening], Backend[Any]]
"""Loads what drafts here, in the engine thread. Raises RemoteError, ModelFileError, BackendError,
CancelledError.
"""


def prepare_server(
    profile: Profile,
    registry: Registry,
    network: NetworkThread,
    keys: Keys,
    on_event: Callable[[Progress], None],
    cancel: Event,
    *,
    convert_drafts: bool,
) -> tuple[Open, ServedProfile | None]:
    """As `prepare_remote`, for whatever listens there: a server that cannot verify drafts is asked
    for its own answers. With it comes what the server says of its profile.
    """
    asked = (profile, registry, network, keys, on_event, cancel)
    ready = prepare_remote(*asked, convert_drafts=convert_drafts)
    if ready is None:
        return _prepare_other(*asked, convert_drafts=convert_drafts), None

    def open_(how: Opening) -> RemotePair:
        load = how.load_options(ready.draft, ready.model.n_ctx, ready.use_extra_bufts)
        return RemotePair(
            ready, network, load, how.remote, abort=how.abort, on_progress=how.on_progress
        )

    return open_, ready.model.profile


def _prepare_other(
    profile: Profile,
    registry: Registry,
    network: NetworkThread,
    keys: Keys,
    on_event: Callable[[Progress], None],
    cancel: Event,
    *,
    convert_drafts: bool,
) -> Open:
    """Where no verify server listens: an engine that can score drafts, or whatever else answers."""
    address = parse_address(profile.target)
    key = keys.find(address)
    client = ChatClient(address, key)
    try:
        model = network.call(choose_model(client))
    except httpx.TransportError as error:
        raise RemoteError(explain(error, address)) from error
    can_score = model.owned_by in ENGINES
    if not can_score or (name := profile.draft_model) is None:
        wants_drafts = can_score and (profile.draft or "none") != "none"
        return lambda how: ChatServer(
            client,
            model.id,
            network,
            how.abort,
            why=_NO_DRAFT_MODEL if wants_drafts else None,
            predicts=how.remote.predicted_outputs,
        )
    draft = read_draft(fetch(name, registry, on_event, cancel))
    network.call(client.close())
    on_event(Progress("load", 0, 0, f"whether {model.id} can verify drafts"))
    use_extra_bufts = require_llama()
    try_out(draft, on_event=on_event, cancel=cancel)
    if convert_drafts:
        draft = cheaper(draft, use_extra_bufts=use_extra_bufts, on_event=on_event, cancel=cancel)
    n_ctx = min(profile.n_ctx, model.max_model_len or profile.n_ctx)
    return lambda how: open_scoring(
        ScoringServer(address, key, model.owned_by, model.id, n_ctx),
        draft.path,
        draft_method(profile, True),
        network,
        how.load_options(draft.path, n_ctx, use_extra_bufts),
        abort=how.abort,
        on_progress=how.on_progress,
    )
