"""From an address to a target that can be drafted for: connected, known, and checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import httpx

from specchat.backends.cheaper_drafts import cheaper
from specchat.backends.preparation import draft_method, fetch, require_llama
from specchat.backends.trials import try_out
from specchat.backends.verify_server.client import ServedModelInfo, VerifyServer
from specchat.backends.verify_server.vocabulary import fetch_vocabulary, try_vocabulary
from specchat.models.memory import require_memory
from specchat.models.registry import Profile, Registry
from specchat.wire.address import Address, parse_address
from specchat.wire.errors import RemoteError
from specchat.wire.http import explain
from specchat.wire.keys import Keys
from specchat.wire.network import NetworkThread
from specengine.core.events import Progress
from specengine.files.compatibility import Comparison, require_compatible
from specengine.files.gguf import read_gguf
from specengine.files.language_model import read_draft
from specengine.load.drafting import DraftMethod


@dataclass(frozen=True, slots=True)
class PreparedRemote:
    """What `RemotePair` needs to begin."""

    server: VerifyServer
    model: ServedModelInfo
    vocabulary: Path
    draft: Path | None
    method: DraftMethod
    vocabularies: Comparison | None
    use_extra_bufts: bool


def prepare_remote(
    profile: Profile,
    registry: Registry,
    network: NetworkThread,
    keys: Keys,
    on_event: Callable[[Progress], None],
    cancel: Event,
    *,
    convert_drafts: bool = False,
) -> PreparedRemote | None:
    """Connect to the target that `profile` names, and fetch what is missing to draft for it; None
    if something else than a verify server listens.

    Blocks. Raises SpecchatError or SpecEngineError with one line: nothing listens there, the draft
    model has another vocabulary.
    """
    address = parse_address(profile.target)
    connected = network.call(_connect(address, keys))
    if connected is None:
        return None
    server, model = connected
    on_event(Progress("load", 0, 0, f"the vocabulary of {model.name}"))
    vocabulary = network.call(fetch_vocabulary(server, model.vocab_fingerprint))
    draft, vocabularies = None, None
    if name := profile.draft_model:
        draft = read_draft(fetch(name, registry, on_event, cancel))
        vocabularies = require_compatible(read_gguf(vocabulary), draft, registry.mask_token(name))
        require_memory(draft, None, model.n_ctx)
    use_extra_bufts = require_llama()
    try_vocabulary(vocabulary, on_event, cancel)
    if draft is not None:
        try_out(draft, on_event=on_event, cancel=cancel)
        if convert_drafts:
            draft = cheaper(
                draft, use_extra_bufts=use_extra_bufts, on_event=on_event, cancel=cancel
            )
    return PreparedRemote(
        server,
        model,
        vocabulary,
        draft.path if draft is not None else None,
        draft_method(profile, draft is not None),
        vocabularies,
        use_extra_bufts,
    )


async def _connect(address: Address, keys: Keys) -> tuple[VerifyServer, ServedModelInfo] | None:
    """None if something else than a verify server listens. Raises RemoteError."""
    server = VerifyServer(address, keys.find(address))
    try:
        info = await server.info()
    except httpx.TransportError as error:
        raise RemoteError(explain(error, address)) from error
    if info is not None and info.models:
        return server, info.models[0]
    await server.close()
    return None
