"""Starts `specchat serve`: from its flags to a server that listens."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import click

from specchat.backends.preparation import prepare
from specchat.config import locations
from specchat.config.settings import load_settings
from specchat.errors import SpecchatError
from specchat.models.memory import require_memory
from specchat.models.registry import Model, Profile, load_registry
from specchat.models.selection import other_context, select_profile
from specchat.models.store import ModelStore
from specchat.printable import one_line
from specchat.server.keys import load_keys
from specchat.server.limits import Limits
from specchat.server.listen import Listen, check_exposure, log_json, serve
from specchat.server.service import Service
from specchat.wire.address import is_url
from specengine.core.events import Progress
from specengine.files.gguf import read_gguf
from specengine.load.served import ServedModel, ServeOptions


@dataclass(frozen=True, slots=True)
class Wanted:
    """The flags of `specchat serve`; None if a flag was not given."""

    profile: str | None
    target: str | None
    places: int
    ctx: int | None
    threads: int | None
    keys: Path | None
    ttl_s: int


def start(
    wanted: Wanted,
    listen: Listen,
    shown: AbstractContextManager[Callable[[Progress], None]],
) -> None:
    """Load the model, telling what is `shown` how far that is, and serve it until a
    signal. Raises SpecchatError, SpecEngineError."""
    allowed = load_keys(os.environ, wanted.keys)
    check_exposure(listen, has_keys=bool(allowed))
    settings = load_settings(threads=wanted.threads, ctx=wanted.ctx)
    registry = load_registry(locations.registry_file())
    chosen = select_profile(registry, settings, profile=wanted.profile, target=wanted.target)
    if is_url(chosen.target):
        raise SpecchatError(
            f"{chosen.target} is on a server already: choose a model on this machine"
        )
    alone = chosen.model_copy(update={"draft": "none"})
    with shown as on_progress:
        ready = prepare(
            alone,
            registry,
            on_progress,
            Event(),
            offline=settings.offline or None,
            gpu_layers=settings.gpu,
        )
        gguf = read_gguf(ready.target)
        require_memory(gguf, None, alone.n_ctx, wanted.places, gpu_layers=settings.gpu)
        options = ServeOptions(
            alone.n_ctx,
            wanted.places,
            settings.threads,
            ready.use_extra_bufts,
            settings.gpu_layers,
        )
        model = ServedModel(ready.target, options)
    service = Service(
        name=_name(alone, ready.target),
        model=model,
        gguf=gguf,
        keys=allowed,
        sha256=_sha256(registry.models.get(alone.target)),
        profile=chosen,
        limits=Limits(ttl_s=wanted.ttl_s),
    )
    for notice in other_context(alone, model.n_ctx):
        click.echo(f"specchat: {one_line(notice)}", err=True)
    click.echo(
        f"serving {service.name} on {listen.url}, {wanted.places} answers at a time, "
        f"{model.n_ctx} tokens each"
    )
    log_json()
    try:
        serve(service, listen)
    except SpecchatError:
        model.close()
        raise


def _name(profile: Profile, path: Path) -> str:
    """A file's path is nobody else's business: its name is enough."""
    return path.stem if Path(profile.target).suffix == ".gguf" else profile.target


def _sha256(model: Model | None) -> str | None:
    if model is None:
        return None
    receipt = ModelStore(locations.models_dir()).receipt(model)
    return model.sha256 if receipt is None else receipt.sha256
