"""The sides of llama-server: with the pair's draft model, and on the target alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from specchat.backends.runtime import Runtime
from specchat.benchmark.peer import PEER, PEER_ALONE, PeerSide
from specchat.benchmark.peer_server import PeerModels, PeerServer
from specchat.models.ensure import ensure_model
from specchat.models.registry import Profile, Registry
from specengine.core.events import Progress
from specengine.files.gguf import read_gguf
from specengine.files.head_files import is_head


@dataclass(frozen=True, slots=True)
class PeerDraft:
    """What drafts for the peer, if anything, and how the target alone is called beside it."""

    file: Path | None
    alone: str = "the target alone"


async def peer_draft(
    profile: Profile,
    registry: Registry,
    runtime: Runtime,
    stack: AsyncExitStack,
    *,
    offline: bool,
    on_event: Callable[[Progress], None],
) -> PeerDraft:
    """The draft model that the pair has loaded; where the profile says `lookup`, its alternative.

    Never a head: as an ordinary draft model it would say anything. Raises SpecchatError.
    """
    _, *loaded = await runtime.run(lambda pair: pair.files)
    if await runtime.run(lambda pair: pair.method) == "mtp" or any(
        is_head(read_gguf(file)) for file in loaded
    ):
        return PeerDraft(None, "the target alone, since it gets no head to draft with")
    if loaded:
        return PeerDraft(loaded[0])
    others = [name for name in profile.alternatives if registry.models[name].head_for is None]
    if profile.draft != "lookup" or not others:
        return PeerDraft(None)
    cancel = threading.Event()
    stack.callback(cancel.set)  # an interrupted download ends
    return PeerDraft(
        await asyncio.to_thread(
            ensure_model,
            registry.resolve(others[0]),
            offline=offline or None,
            cancel=cancel,
            on_progress=lambda done, n: on_event(Progress("download", done, n, others[0])),
        )
    )


async def peer_sides(
    against: str,
    draft: PeerDraft,
    runtime: Runtime,
    stack: AsyncExitStack,
    *,
    threads: int,
    max_tokens: int,
    on_stage: Callable[[str], None],
) -> list[PeerSide]:
    """Starts a server for each, which `stack` ends. Raises BenchmarkError."""
    target, *_ = await runtime.run(lambda pair: pair.files)
    n_ctx = await runtime.run(lambda pair: pair.n_ctx)
    models = {PEER_ALONE: PeerModels(target=target, draft=None, n_ctx=n_ctx, threads=threads)}
    if draft.file is not None:
        models[PEER] = models[PEER_ALONE].model_copy(update={"draft": draft.file})
    sides = []
    for name, loads in models.items():
        on_stage(f"starting {name}")
        server = PeerServer(against, loads)
        stack.callback(server.close)
        await server.ready()
        drafts = draft.alone if loads.draft is None else f"drafts by {loads.draft.name}"
        words = f"at its defaults, {drafts}; {server.about}"
        client = await stack.enter_async_context(server.client())
        sides.append(PeerSide(name, words, client, runtime, max_tokens, server.last_words))
    return sides
