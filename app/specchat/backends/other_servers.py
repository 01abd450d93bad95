"""Targets on other servers than ours: engines that can score drafts, and whatever else answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import httpx

from specchat.backends.cheaper_drafts import cheaper
from specchat.backends.openai_chat.server import ChatClient, choose_model
from specchat.backends.preparation import draft_method, fetch, require_llama
from specchat.backends.scoring.pair import ENGINES, ScoringServer
from specchat.backends.trials import try_out
from specchat.models.registry import Profile, Registry
from specchat.wire.address import Address, parse_address
from specchat.wire.errors import RemoteError
from specchat.wire.http import explain
from specchat.wire.keys import Keys
from specchat.wire.network import NetworkThread
from specengine.core.events import Progress
from specengine.files.language_model import read_draft
from specengine.load.drafting import DraftMethod

NO_DRAFT_MODEL = "to verify drafts, name a draft model that has its vocabulary"


@dataclass(frozen=True, slots=True)
class PreparedChat:
    """What `ChatServer` needs to begin."""

    client: ChatClient
    model: str
    why: str | None = None
    """Why drafts are not verified, if the server might."""


@dataclass(frozen=True, slots=True)
class PreparedScoring:
    """What `open_scoring` needs to begin."""

    server: ScoringServer
    draft: Path
    method: DraftMethod
    use_extra_bufts: bool


def prepare_other(
    profile: Profile,
    registry: Registry,
    network: NetworkThread,
    keys: Keys,
    on_event: Callable[[Progress], None],
    cancel: Event,
    *,
    convert_drafts: bool,
) -> PreparedScoring | PreparedChat:
    """As `prepare_remote`, where no verify server listens."""
    address = parse_address(profile.target)
    chat, server = network.call(_connect(address, keys, profile.n_ctx))
    if server is None:
        return chat
    if (name := profile.draft_model) is None:
        why = NO_DRAFT_MODEL if (profile.draft or "none") != "none" else None
        return PreparedChat(chat.client, chat.model, why)
    draft = read_draft(fetch(name, registry, on_event, cancel))
    network.call(chat.client.close())
    on_event(Progress("load", 0, 0, f"whether {server.model} can verify drafts"))
    use_extra_bufts = require_llama()
    try_out(draft, on_event=on_event, cancel=cancel)
    if convert_drafts:
        draft = cheaper(draft, use_extra_bufts=use_extra_bufts, on_event=on_event, cancel=cancel)
    return PreparedScoring(server, draft.path, draft_method(profile, True), use_extra_bufts)


async def _connect(
    address: Address, keys: Keys, n_ctx: int
) -> tuple[PreparedChat, ScoringServer | None]:
    """The target alone, and the server where it is of a kind that can score drafts."""
    key = keys.find(address)
    client = ChatClient(address, key)
    try:
        model = await choose_model(client)
    except httpx.TransportError as error:
        raise RemoteError(explain(error, address)) from error
    chat = PreparedChat(client, model.id)
    if model.owned_by not in ENGINES:
        return chat, None
    n_ctx = min(n_ctx, model.max_model_len or n_ctx)
    return chat, ScoringServer(address, key, model.owned_by, model.id, n_ctx)
