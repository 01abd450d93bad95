"""The sides of llama-server: with the pair's draft model, and on the target alone."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from peer.side import PEER, PEER_ALONE, PeerSide
from servers.llama_server import PeerServer
from servers.llama_server_child import PeerModels
from specchat.backends.runtime import Runtime
from specchat.benchmark.session import Others, Plan, Watcher
from specchat.models.ensure import ensure_model
from specchat.models.registry import Registry
from specengine.core.events import Progress
from specengine.drafters.registry import uses_own_heads
from specengine.files.gguf import read_gguf
from specengine.files.head_files import is_head
from specengine.llama.threads import default_threads


@dataclass(frozen=True, slots=True)
class PeerDraft:
    """What drafts for the peer, if anything, and how the target alone is called beside it."""

    file: Path | None
    alone: str = "the target alone"


async def peer_draft(
    plan: Plan, registry: Registry, runtime: Runtime, watcher: Watcher, stack: AsyncExitStack
) -> PeerDraft:
    """The draft model that the pair has loaded; where the profile says `lookup`, its alternative.

    Never a head: as an ordinary draft model it would say anything. Raises SpecchatError.
    """
    _, *loaded = await runtime.run(lambda pair: pair.files)
    if uses_own_heads(await runtime.run(lambda pair: pair.method)) or any(
        is_head(read_gguf(file)) for file in loaded
    ):
        return PeerDraft(None, "the target alone, since it gets no head to draft with")
    if loaded:
        return PeerDraft(loaded[0])
    alternatives = plan.profile.alternatives
    others = [name for name in alternatives if registry.models[name].head_for is None]
    if plan.profile.draft != "lookup" or not others:
        return PeerDraft(None)
    cancel = threading.Event()
    stack.callback(cancel.set)  # an interrupted download ends
    return PeerDraft(
        await asyncio.to_thread(
            ensure_model,
            registry.resolve(others[0]),
            offline=plan.offline or None,
            cancel=cancel,
            on_progress=lambda done, n: watcher.load(Progress("download", done, n, others[0])),
        )
    )


async def open_peers(
    against: str,
    plan: Plan,
    registry: Registry,
    runtime: Runtime,
    watcher: Watcher,
    stack: AsyncExitStack,
) -> Others:
    """Starts a server for each side, which `stack` ends.

    `against`: as `PeerServer` takes it. Raises SpecchatError.
    """
    draft = await peer_draft(plan, registry, runtime, watcher, stack)
    target, *_ = await runtime.run(lambda pair: pair.files)
    n_ctx = await runtime.run(lambda pair: pair.n_ctx)
    threads = plan.threads or default_threads()
    models = {PEER_ALONE: PeerModels(target=target, draft=None, n_ctx=n_ctx, threads=threads)}
    if draft.file is not None:
        models[PEER] = models[PEER_ALONE].model_copy(update={"draft": draft.file})
    sides = []
    for name, loads in models.items():
        watcher.stage(f"starting {name}")
        server = PeerServer(against, loads)
        stack.callback(server.close)
        await server.ready()
        drafts = draft.alone if loads.draft is None else f"drafts by {loads.draft.name}"
        words = f"at its defaults, {drafts}; {server.about}"
        client = await stack.enter_async_context(server.client())
        sides.append(PeerSide(name, words, client, runtime, plan.max_tokens, server.last_words))
    return Others(tuple(sides), draft.file)
